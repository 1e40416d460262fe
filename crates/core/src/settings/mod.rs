//! Settings, defined once.
//!
//! [`settings!`](crate::settings!) takes one line of documentation, a type and a default per field, plus optionally a range,
//! the settings it requires or excludes, and how it is written. From these it derives the struct, its validation, its JSON,
//! the command-line flags with their help, the layers of configuration files and earlier runs, and the values of a
//! grid. Each default is written in one place.
//!
//! A type is a setting if it has a [`Kind`]: numbers, booleans, text, [`choices!`](crate::choices!), lists and options of these.
//! Paths are settings too; their types are in the crate that accesses files, and their kind tells whether they are read
//! or written.

mod field;
mod layers;
mod time;

pub use self::field::{Access, Field, Kind, kebab};
pub use self::layers::{Settings, SettingsLayer, check};
pub use self::time::TimeLimit;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type that a setting can have.
pub trait Setting: Serialize + DeserializeOwned {
    /// The kind of value of this type.
    const KIND: Kind;
}

macro_rules! kinds {
    ($( $type:ty => $kind:ident, )*) => {
        $( impl Setting for $type { const KIND: Kind = Kind::$kind; } )*
    };
}

kinds! {
    bool => Bool,
    u32 => Integer,
    u64 => Integer,
    usize => Integer,
    f32 => Number,
    f64 => Number,
    String => Text,
}

impl<T: Setting> Setting for Option<T> {
    const KIND: Kind = T::KIND;
}

impl<T: Setting> Setting for Vec<T> {
    const KIND: Kind = Kind::List(&T::KIND);
}

/// Defines a struct of settings.
///
/// ```
/// use serde_json::json;
/// use veridical_core::settings;
/// use veridical_core::settings::{SettingsLayer, Settings as _};
///
/// settings! {
///     /// How neighbors are found.
///     pub struct Search in "Search" {
///         /// Neighbors per query
///         pub k: usize = 10 => [at_least(1.0), value("K")],
///         /// Leave out neighbors that are less similar
///         pub threshold: Option<f64> = None => [at_least(-1.0), at_most(1.0)],
///     }
/// }
/// let given = SettingsLayer::given(json!({ "k": 3 }).as_object().cloned().unwrap_or_default());
/// let search = Search::layered("similar", &[given])?;
/// assert_eq!((search.k, search.threshold), (3, None));
/// let refused = Search { k: 0, ..search }.check().unwrap_err();
/// assert_eq!(refused.to_string(), "⟨k⟩ must be at least 1, got 0");
/// # Ok::<(), veridical_core::Error>(())
/// ```
///
/// The brackets contain methods of [`Field`]. Structs shared by several verbs are named after `with`; their fields appear
/// beside the struct's own in one namespace. Fields after `besides` are not settings: they are set by code.
#[macro_export]
macro_rules! settings {
    (
        $(#[doc = $about:expr])*
        pub struct $name:ident $(in $heading:literal)? {
            $( $(#[doc = $doc:expr])* pub $field:ident: $type:ty = $default:expr $(=> [$( $method:ident ( $($argument:expr),* ) ),* $(,)?])?, )*
        }
        $( with { $( $(#[doc = $group_doc:expr])* pub $group:ident: $group_type:ty, )* } )?
        $( besides { $( $(#[doc = $other_doc:expr])* pub $other:ident: $other_type:ty, )* } )?
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])* pub $field: $type, )*
            $( $( $(#[doc = $group_doc])* pub $group: $group_type, )* )?
            $( $( $(#[doc = $other_doc])* pub $other: $other_type, )* )?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $( $field: $default, )*
                    $( $( $group: Default::default(), )* )?
                    $( $( $other: Default::default(), )* )?
                }
            }
        }

        impl $crate::settings::Settings for $name {
            fn fields() -> ::std::vec::Vec<$crate::settings::Field> {
                #[allow(unused_mut, unused_variables)]
                let (mut fields, defaults) = (::std::vec::Vec::new(), Self::default());
                #[allow(unused_variables)]
                let heading = <[&'static str]>::first(&[$( $heading )?]).copied();
                $( fields.push(
                    $crate::settings::Field::new::<$type>(
                        stringify!($field),
                        concat!($($doc),*),
                        &defaults.$field,
                        concat!(module_path!(), "::", stringify!($name)),
                    )
                    .heading(heading)
                    $( $( .$method($($argument),*) )* )?
                ); )*
                $( $( fields.extend(<$group_type as $crate::settings::Settings>::fields()); )* )?
                fields
            }

            fn values(&self) -> $crate::settings::Values {
                #[allow(unused_mut)]
                let mut values = $crate::settings::Values::new();
                $( values.insert($crate::settings::kebab(stringify!($field)), $crate::settings::to_value(&self.$field)); )*
                $( $( values.extend($crate::settings::Settings::values(&self.$group)); )* )?
                values
            }

            fn set(&mut self, name: &str, value: &$crate::settings::Value) -> $crate::Result<bool> {
                $( if name == $crate::settings::kebab(stringify!($field)) {
                    self.$field = $crate::settings::from_value(name, value)?;
                    return Ok(true);
                } )*
                $( $( if $crate::settings::Settings::set(&mut self.$group, name, value)? {
                    return Ok(true);
                } )* )?
                let _ = (name, value);
                Ok(false)
            }
        }

        impl $crate::settings::serde::Serialize for $name {
            fn serialize<S: $crate::settings::serde::Serializer>(&self, to: S) -> ::std::result::Result<S::Ok, S::Error> {
                $crate::settings::serde::Serialize::serialize(&$crate::settings::Settings::values(self), to)
            }
        }

        impl<'de> $crate::settings::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::settings::serde::Deserializer<'de>>(from: D) -> ::std::result::Result<Self, D::Error> {
                let values: $crate::settings::Values = $crate::settings::serde::Deserialize::deserialize(from)?;
                <Self as $crate::settings::Settings>::of(&values).map_err($crate::settings::serde::de::Error::custom)
            }
        }
    };
}

/// Defines an enum with variants that are chosen by name: one line of documentation and a name each.
///
/// ```
/// use veridical_core::choices;
///
/// choices! {
///     /// The side of an interaction.
///     pub enum Side {
///         /// Vectors of users
///         User = "user",
///         /// Vectors of items
///         Item = "item",
///     }
/// }
/// assert_eq!(Side::Item.name(), "item");
/// assert_eq!(Side::from_name("user"), Some(Side::User));
/// ```
#[macro_export]
macro_rules! choices {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $( $(#[doc = $doc:expr])* $variant:ident = $text:literal, )*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, $crate::settings::serde::Serialize, $crate::settings::serde::Deserialize)]
        #[serde(crate = "veridical_core::settings::serde")]
        pub enum $name {
            $( $(#[doc = $doc])* #[serde(rename = $text)] $variant, )*
        }

        $crate::choices!(@names $name { $( $(#[doc = $doc])* $variant = $text, )* });
    };
    (@names $name:ident { $( $(#[doc = $doc:expr])* $variant:ident = $text:literal, )* }) => {
        impl $name {
            /// All variants, in the order of definition.
            pub const ALL: [Self; [$( $text ),*].len()] = [$( Self::$variant ),*];

            /// Returns the name that chooses this variant.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }

            /// Returns the variant of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|choice| choice.name() == name)
            }
        }

        impl $crate::settings::Setting for $name {
            const KIND: $crate::settings::Kind =
                $crate::settings::Kind::Choice(&[ $( ($text, concat!($($doc),*)), )* ]);
        }
    };
}

#[doc(hidden)]
pub use serde;
pub use serde_json::Value;

/// Setting names without dashes, and their values.
pub type Values = serde_json::Map<String, Value>;

/// Converts a setting to a JSON value.
#[doc(hidden)]
pub fn to_value(setting: &impl Setting) -> Value {
    // INVARIANT: settings are numbers, booleans, names, paths and lists of these.
    serde_json::to_value(setting).expect("settings serialize")
}

/// Converts a JSON value to a setting.
///
/// # Errors
/// [`crate::Error::Request`] names the setting.
#[doc(hidden)]
pub fn from_value<T: Setting>(name: &str, value: &Value) -> crate::Result<T> {
    T::deserialize(value).map_err(|e| crate::Error::request(format!("⟨{name}⟩: {e}"), ""))
}
