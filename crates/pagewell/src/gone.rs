//! Options, keys and commands of earlier versions, and what to do without them.

const GONE: [(&str, &str); 13] = [
    ("baseline", READ),
    ("device-model", READ),
    ("mirror", NO_MIRRORS),
    ("model", NO_MODELS),
    ("no-elevator", READ),
    ("no-free-behind", READ),
    ("no-merge", READ),
    ("no-page-chunk", READ),
    ("no-readahead", READ),
    ("send-path", SENDING),
    ("stripe", NO_MIRRORS),
    ("write-degraded", NO_MIRRORS),
    ("write-rule", WRITE),
];

const READ: &str = "is only for measuring: 'pagewell bench read LOCATION' has it";
const WRITE: &str =
    "is only for measuring: 'pagewell bench seekreadwrite --rule RULE' has it, others leave it out";
const SENDING: &str = "is gone: long READs of files leave by sendfile, always; leave it out";
const NO_MIRRORS: &str = "is gone: Pagewell makes no stripes and mirrors any more, make them with \
     md, LVM, btrfs or ZFS, and name that device (each leg of a mirror can be read by itself)";
const NO_MODELS: &str = "is gone: simulated devices are only for measuring, 'pagewell bench read \
     --device-model NAME' reads an image through one";

/// What to say of a former option, key, command or kind of source, on one line.
pub(crate) fn advice(name: &str) -> Option<String> {
    let plain = name.trim_start_matches('-').replace('_', "-");
    let (_, advice) = GONE.iter().find(|(gone, _)| *gone == plain)?;
    Some(format!("{name} {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_write_a_name_is_known() {
        for name in ["--send-path", "send_path", "send-path"] {
            let said = advice(name).unwrap();
            assert!(
                said.starts_with(name) && said.contains("leave it out"),
                "{said}"
            );
        }
        assert_eq!(advice("--send"), None);
        assert_eq!(advice(""), None);
        assert!(GONE.is_sorted_by_key(|(name, _)| *name));
    }
}
