//! The macro that turns the list of keys into types, values and their setters.
//!
//! It is used once, in `keys.rs`, where its paths are resolved.

macro_rules! keys {
    ($($(#[doc = $section_doc:literal])+ $section:ident: $Section:ident {
        $($(#[doc = $doc:literal])+ $key:ident: $Kind:ty = $default:expr, $unit:literal;)+
    })+) => {
        $(
            $(#[doc = $section_doc])+
            #[derive(Clone, Debug)]
            pub struct $Section { $($(#[doc = $doc])+ pub $key: $Kind,)+ }

            impl Default for $Section {
                fn default() -> Self {
                    Self { $($key: $default,)+ }
                }
            }
        )+

        /// The effective values.
        #[derive(Clone, Debug, Default)]
        pub struct Values {
            $($(#[doc = $section_doc])+ pub $section: $Section,)+
            /// Logs that the user names one by one, with what is to be known of each.
            pub logs: Vec<NamedLog>,
            /// Buckets whose objects are logs.
            pub buckets: Vec<NamedBucket>,
            /// Logins that may do some things only.
            pub logins: Vec<NamedLogin>,
            /// Outputs to other systems.
            pub outputs: Vec<OutputEntry>,
            /// Exporters that are scraped.
            pub scrape: Vec<ScrapeTarget>,
            /// Database servers that are monitored.
            pub databases: Vec<NamedDatabase>,
            /// Plugins and commands of NRPE that are run.
            pub checks: Vec<NamedCheck>,
            /// Targets that are probed from outside.
            pub probes: Vec<CheckSpec>,
            /// Receivers of notices, people, rotas, routes and maintenance windows.
            pub notices: NotifyEntries,
            /// Texts that replace forms of messages.
            pub templates: Vec<MessageTemplate>,
            /// Repairs of hosts.
            pub heals: Vec<HealBlock>,
            /// Objectives that requests and checks are counted against.
            pub slos: Vec<SloSpec>,
        }

        /// Every key, in the order of the docs.
        pub const KEYS: &[Key] = &[$($(Key {
            section: stringify!($section),
            name: stringify!($key),
            kind: <$Kind as Setting>::KIND,
            unit: $unit,
            doc: concat!($($doc),+),
        },)+)+];

        /// Every section with its doc, in the order of the docs.
        pub const SECTIONS: &[(&str, &str)] =
            &[$((stringify!($section), concat!($($section_doc),+)),)+];

        impl Values {
            /// Sets a key from the file; `false` when the value is of another kind.
            pub fn set_toml(&mut self, key: &Key, value: &Value) -> bool {
                $($(if (key.section, key.name) == (stringify!($section), stringify!($key)) {
                    let Some(value) = Setting::from_toml(value) else { return false };
                    self.$section.$key = value;
                    return true;
                })+)+
                false
            }

            /// Sets a key from text; `false` when the text does not read as the key's kind.
            pub fn set_text(&mut self, key: &Key, text: &str) -> bool {
                $($(if (key.section, key.name) == (stringify!($section), stringify!($key)) {
                    let Some(value) = Setting::from_text(text) else { return false };
                    self.$section.$key = value;
                    return true;
                })+)+
                false
            }

            /// The value of a key as TOML; `None` when it is not set.
            pub fn get(&self, key: &Key) -> Option<Value> {
                $($(if (key.section, key.name) == (stringify!($section), stringify!($key)) {
                    return self.$section.$key.to_toml();
                })+)+
                None
            }
        }
    };
}
pub(crate) use keys;
