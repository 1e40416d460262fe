//! Paths as settings: inputs and outputs.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use veridical_core::Error as Core;
use veridical_core::settings::{Access, Kind, Setting};

use crate::{Result as IoResult, Source};

macro_rules! place {
    (@from $name:ident: $( $from:ty ),*) => {
        $( impl From<$from> for $name {
            fn from(path: $from) -> Self {
                Self(path.into())
            }
        } )*
    };
    ($( $(#[doc = $doc:expr])* $name:ident: $access:ident; )*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Debug, Default, PartialEq, Eq)]
            pub struct $name(PathBuf);

            impl $name {
                /// Returns the source at this path: a file, an object store, or a stream for `-`.
                pub fn source(&self) -> Source {
                    Source::from_arg(&self.0)
                }
            }

            impl Setting for $name {
                const KIND: Kind = Kind::Path(Access::$access);
            }

            place!(@from $name: &str, String, &Path, PathBuf, &OsStr);

            impl Deref for $name {
                type Target = Path;

                fn deref(&self) -> &Path {
                    &self.0
                }
            }

            impl AsRef<Path> for $name {
                fn as_ref(&self) -> &Path {
                    &self.0
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.0.display().fmt(f)
                }
            }

            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    match self.0.to_str() {
                        Some(text) => text.serialize(to),
                        None => self.0.as_os_str().serialize(to),
                    }
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    Ok(match Spelled::deserialize(from)? {
                        Spelled::Text(text) => Self(text.into()),
                        Spelled::Bytes(bytes) => Self(bytes.into()),
                    })
                }
            }
        )*
    };
}

place! {
    /// A file or folder to read.
    Input: Read;
    /// A file or folder to write.
    Output: Written;
}

/// The files of ids of tables without ids: one for all tables, or one for each.
///
/// It is written as nothing, a path, or a list of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdFiles(Vec<Input>);

impl IdFiles {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the files in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &Input> {
        self.0.iter()
    }

    /// Returns the file for a single table.
    ///
    /// # Errors
    /// [`Core::Request`] if there are several.
    pub fn only(&self) -> IoResult<Option<&Input>> {
        self.check(1)?;
        Ok(self.0.first())
    }

    /// Returns the file for table `i` of `n`.
    ///
    /// # Errors
    /// [`Core::Request`] if there are several, but not one per table.
    pub fn of_table(&self, i: usize, n: usize) -> IoResult<Self> {
        self.check(n)?;
        Ok(if self.0.len() > 1 { self.0.get(i).cloned().into() } else { self.clone() })
    }

    fn check(&self, tables: usize) -> IoResult<()> {
        let (given, plural) = (self.0.len(), if tables == 1 { "" } else { "s" });
        if given <= 1 || given == tables {
            return Ok(());
        }
        let what = format!("⟨ids⟩ is given {given} times for {tables} table{plural}");
        Err(Core::request(what, "give it once, or once per table in their order").into())
    }
}

impl From<Option<Input>> for IdFiles {
    fn from(file: Option<Input>) -> Self {
        Self(file.into_iter().collect())
    }
}

impl From<Input> for IdFiles {
    fn from(file: Input) -> Self {
        Self(vec![file])
    }
}

impl From<Vec<Input>> for IdFiles {
    fn from(files: Vec<Input>) -> Self {
        Self(files)
    }
}

impl Setting for IdFiles {
    const KIND: Kind = Kind::List(&Kind::Path(Access::Read));
}

impl Serialize for IdFiles {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [] => to.serialize_none(),
            [only] => only.serialize(to),
            several => several.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for IdFiles {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a path or a list of paths")]
        enum Given {
            None(()),
            One(Input),
            Several(Vec<Input>),
        }
        Ok(match Given::deserialize(from)? {
            Given::None(()) => Self::default(),
            Given::One(file) => file.into(),
            Given::Several(files) => files.into(),
        })
    }
}

/// Text, or bytes for names that are not UTF-8.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a path")]
enum Spelled {
    Text(String),
    Bytes(OsString),
}

/// Converts a path to the value of a setting.
pub fn path_value(path: &OsStr) -> Value {
    // INVARIANT: text and bytes serialize.
    serde_json::to_value(Input::from(path)).expect("a path serializes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_text() {
        let path = Input::from("a/b.csv");
        let value = serde_json::to_value(&path).unwrap();
        assert_eq!(value, "a/b.csv");
        assert_eq!(serde_json::from_value::<Input>(value).unwrap(), path);
        let refused = serde_json::from_value::<Output>(7.into()).unwrap_err();
        assert_eq!(refused.to_string(), "expected a path");
    }

    #[test]
    fn files_of_ids_are_for_all_tables_or_for_one_each() {
        let of = |value: Value| serde_json::from_value::<IdFiles>(value).unwrap();
        for value in [Value::Null, "a".into(), serde_json::json!(["a", "b"])] {
            assert_eq!(serde_json::to_value(of(value.clone())).unwrap(), value);
        }
        let several = of(serde_json::json!(["a", "b"]));
        assert_eq!(several.of_table(1, 2).unwrap(), of("b".into()));
        assert_eq!(of("a".into()).of_table(1, 2).unwrap(), of("a".into()));
        assert!(of(Value::Null).only().unwrap().is_none());
        let message = several.of_table(0, 3).unwrap_err().to_string();
        let want =
            "⟨ids⟩ is given 2 times for 3 tables; give it once, or once per table in their order";
        assert_eq!(message, want);
        assert!(several.only().is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_no_text_comes_back() {
        use std::os::unix::ffi::OsStrExt;

        let path = OsStr::from_bytes(b"caf\xe9.csv");
        let back: Input = serde_json::from_value(path_value(path)).unwrap();
        assert_eq!(back.as_os_str(), path);
    }
}
