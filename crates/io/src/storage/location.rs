//! Locations in object stores, written like paths: `s3://bucket/key`, `gs://bucket/key`, `az://container/key`.

use std::path::Path;

use object_store::path::Path as Key;

use crate::{Error, Result};

/// The storage service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Service {
    S3,
    Google,
    Azure,
}

/// An object, or the common prefix of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(super) service: Service,
    /// The bucket or container as written, including `container@account.host`.
    pub(super) bucket: String,
    pub(super) key: Key,
    /// The URL as written, without trailing slashes.
    pub(super) url: String,
}

impl Service {
    fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" | "s3a" => Some(Self::S3),
            "gs" | "gcs" => Some(Self::Google),
            "az" | "azure" | "abfs" | "abfss" => Some(Self::Azure),
            _ => None,
        }
    }

    /// The environment variables of the credentials.
    pub(super) const fn credentials(self) -> &'static str {
        match self {
            Self::S3 => "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
            Self::Google => "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT",
            Self::Azure => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        }
    }

    /// The environment variables of the service address.
    pub(super) const fn endpoint(self) -> &'static str {
        match self {
            Self::S3 => "AWS_ENDPOINT_URL and AWS_REGION",
            Self::Google => "GOOGLE_BASE_URL",
            Self::Azure => "AZURE_STORAGE_ENDPOINT",
        }
    }
}

impl Location {
    /// Parses the location that `path` names; `None` for a local path.
    pub(crate) fn parse(path: &Path) -> Result<Option<Self>> {
        let Some((scheme, rest)) = path.to_str().and_then(|text| text.split_once("://")) else {
            return Ok(None);
        };
        if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Ok(None);
        }
        let refused = |what: &str| Err(Error::content(path, what));
        let Some(service) = Service::of(&scheme.to_ascii_lowercase()) else {
            return refused("unknown store; use s3://, gs:// or az://");
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return refused("there is no bucket; write it as s3://bucket/key");
        }
        let Ok(parsed) = Key::parse(key.trim_end_matches('/')) else {
            return refused("the key is not allowed: it has an empty part, `.` or `..`");
        };
        let bucket = bucket.to_owned();
        let url = format!("{scheme}://{rest}").trim_end_matches('/').to_owned();
        Ok(Some(Self { service, bucket, key: parsed, url }))
    }

    /// The location of an object below this one.
    pub(super) fn below(&self, key: &Key) -> Self {
        let bucket_url = &self.url[..self.url.len() - self.key.as_ref().len()];
        let url = format!("{}/{key}", bucket_url.trim_end_matches('/'));
        Self { key: key.clone(), url, ..self.clone() }
    }

    /// Whether a location is this one or below it.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        self.service == other.service
            && self.bucket == other.bucket
            && other.key.prefix_match(&self.key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Location> {
        Location::parse(Path::new(text)).unwrap()
    }

    #[test]
    fn locations_are_distinguished_from_paths() {
        for path in ["a/b.parquet", "/a", "-", "c:/x", "://x", "a b://c"] {
            assert_eq!(parse(path), None, "{path}");
        }
        let cases = [
            ("s3://b/k/t.parquet", Service::S3, "b", "k/t.parquet"),
            ("s3a://b/k/", Service::S3, "b", "k"),
            ("gs://b/k", Service::Google, "b", "k"),
            ("gcs://b", Service::Google, "b", ""),
            ("az://c/k=1/x.csv", Service::Azure, "c", "k=1/x.csv"),
            ("abfss://c@a.dfs.core.windows.net/k", Service::Azure, "c@a.dfs.core.windows.net", "k"),
        ];
        for (url, service, bucket, key) in cases {
            let at = parse(url).unwrap();
            assert_eq!((at.service, &*at.bucket, at.key.as_ref()), (service, bucket, key));
            assert_eq!(at.url, url.trim_end_matches('/'));
        }
    }

    #[test]
    fn objects_below_a_place_have_its_url() {
        let at = parse("gs://b/folder").unwrap();
        let below = at.below(&Key::from("folder/day=1/a.parquet"));
        assert_eq!(below.url, "gs://b/folder/day=1/a.parquet");
        assert_eq!(parse("gs://b").unwrap().below(&Key::from("x")).url, "gs://b/x");
        assert!(at.holds(&below) && at.holds(&at) && !below.holds(&at));
        assert!(!at.holds(&parse("gs://b/folder2/x").unwrap()));
        assert!(!at.holds(&parse("s3://b/folder/x").unwrap()));
    }

    #[test]
    fn bad_locations_are_refused_with_the_way_out() {
        let message = |url: &str| Location::parse(Path::new(url)).unwrap_err().to_string();
        assert_eq!(
            message("http://h/x.csv"),
            "http://h/x.csv: unknown store; use s3://, gs:// or az://"
        );
        assert_eq!(message("s3:///k"), "s3:///k: there is no bucket; write it as s3://bucket/key");
        for url in ["s3://b/a/../c", "gs://b/a//c", "az://c/./x"] {
            let want = "the key is not allowed: it has an empty part, `.` or `..`";
            assert_eq!(message(url), format!("{url}: {want}"));
        }
    }
}
