//! Values with names for the command line, tables and results.

/// An enum whose values have names: `ALL`, `name`, and conversions from and to text.
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        $visible:vis enum $type:ident {
            $($(#[$doc:meta])* $value:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visible enum $type {
            $($(#[$doc])* $value,)+
        }

        impl $type {
            /// All, in their order here.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> ::std::result::Result<Self, String> {
                let mut all = Self::ALL.into_iter();
                all.find(|one| one.name() == text).ok_or_else(|| {
                    let names = Self::ALL.map(Self::name);
                    format!("'{text}' is none of {}", names.join(", "))
                })
            }
        }
    };
}
