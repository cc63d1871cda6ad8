//! Ranges of addresses, as people write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// `ADDRESS/BITS`, or one `ADDRESS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The first address, as IPv6.
    bits: u128,
    prefix_bits: u8,
}

/// Of IPv4 addresses as IPv6.
const MAPPED_PREFIX_BITS: u8 = 96;

impl Network {
    /// This machine to itself.
    pub const LOOPBACK: [Self; 2] = [
        Self {
            bits: Ipv4Addr::new(127, 0, 0, 0).to_ipv6_mapped().to_bits(),
            prefix_bits: MAPPED_PREFIX_BITS + 8,
        },
        Self {
            bits: Ipv6Addr::LOCALHOST.to_bits(),
            prefix_bits: 128,
        },
    ];

    /// Whether `address` is in it; `::/0` has all, also of IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        (self.bits ^ bits(address)).leading_zeros() >= u32::from(self.prefix_bits)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not ADDRESS or ADDRESS/BITS");
        let (address, given) = text
            .split_once('/')
            .map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let given: u8 = given.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if given > most {
            return Err(wrong());
        }
        let network = Self {
            bits: bits(address),
            prefix_bits: given + (128 - most),
        };
        // All of IPv4, but not everything, is mostly a mistake.
        if (1..MAPPED_PREFIX_BITS).contains(&network.prefix_bits)
            && network.contains(Ipv4Addr::UNSPECIFIED.into())
        {
            return Err(format!(
                "'{address}/{given}' has all IPv4 addresses in it: write those you mean as \
                 a.b.c.d/BITS, or ::/0 for everybody"
            ));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(self.bits);
        match (self.prefix_bits, address.to_ipv4_mapped()) {
            (MAPPED_PREFIX_BITS.., Some(address)) => {
                write!(
                    formatter,
                    "{address}/{}",
                    self.prefix_bits - MAPPED_PREFIX_BITS
                )
            }
            _ => write!(formatter, "{address}/{}", self.prefix_bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        let network: Network = "10.1.2.0/23".parse().unwrap();
        assert!(network.contains("10.1.3.255".parse().unwrap()));
        assert!(network.contains("::ffff:10.1.2.1".parse().unwrap()));
        assert!(!network.contains("10.1.4.0".parse().unwrap()));
        assert!(!network.contains("::1".parse().unwrap()));
        assert!(
            "::/0"
                .parse::<Network>()
                .unwrap()
                .contains("fe80::1".parse().unwrap())
        );
        assert!(
            "0.0.0.0/0"
                .parse::<Network>()
                .unwrap()
                .contains("9.9.9.9".parse().unwrap())
        );
        for all in ["::/0", "::ffff:1.2.3.4/0"] {
            let all: Network = all.parse().unwrap();
            assert!(all.contains("9.9.9.9".parse().unwrap()));
            assert!(all.contains("::ffff:9.9.9.9".parse().unwrap()));
            assert!(all.contains("fe80::1".parse().unwrap()));
        }
        let mapped: Network = "::ffff:10.1.2.0/119".parse().unwrap();
        assert_eq!(mapped, network);
        let one: Network = "::ffff:10.1.2.3".parse().unwrap();
        assert_eq!(one, "10.1.2.3".parse().unwrap());
        for wide in ["::ffff:10.0.0.0/95", "::/1", "::/64", "::1/80"] {
            let refused = wide.parse::<Network>().unwrap_err();
            assert!(refused.contains("IPv4"), "{wide}: {refused}");
        }
        for narrow in ["::1", "::/96", "fe80::/10", "2000::/3", "::1:0:0/96"] {
            let narrow: Network = narrow.parse().unwrap();
            assert!(!narrow.contains("9.9.9.9".parse().unwrap()));
        }
        for (text, shown) in [
            ("10.1.2.0/23", "10.1.2.0/23"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("::ffff:10.1.2.0/119", "10.1.2.0/23"),
            ("::ffff:1.2.3.4/0", "::ffff:1.2.3.4/0"),
            ("fe80::/10", "fe80::/10"),
            ("::1", "::1/128"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), shown);
        }
        for bad in ["", "10.0.0.0/33", "10.0.0", "::/129", "10.0.0.0/", "host"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
