//! Settings of stores as pairs of text, by the names that `object_store` has for them or that are usual in Python.

use crate::{Problem, RemoteError, RemoteOptions, Scheme};

/// What a setting is called elsewhere, and here.
type Alias = (&'static str, &'static str);

const S3: &[Alias] = &[
    ("key", "aws_access_key_id"),
    ("secret", "aws_secret_access_key"),
    ("token", "aws_session_token"),
    ("anon", "aws_skip_signature"),
    ("endpoint_url", "aws_endpoint"),
    ("region_name", "aws_region"),
    ("requester_pays", "aws_request_payer"),
];
const GCS: &[Alias] = &[
    ("token", TOKEN),
    ("anon", "google_skip_signature"),
    ("endpoint_url", "google_base_url"),
];
const AZURE: &[Alias] = &[
    ("anon", "azure_skip_signature"),
    ("endpoint_url", "azure_storage_endpoint"),
    ("account_url", "azure_storage_endpoint"),
];

/// What stands for several settings of Google's store: a file with credentials, what is in one, or none.
const TOKEN: &str = "token";

/// The names of `object_store` that are named where one is not known; it knows more.
const USUAL: [(Scheme, &[&str]); 3] = [
    (
        Scheme::S3,
        &[
            "aws_access_key_id",
            "aws_secret_access_key",
            "aws_session_token",
            "aws_region",
            "aws_endpoint",
            "aws_allow_http",
            "aws_skip_signature",
            "aws_virtual_hosted_style_request",
        ],
    ),
    (
        Scheme::Gcs,
        &[
            "google_application_credentials",
            "google_service_account",
            "google_service_account_key",
            "google_base_url",
            "google_skip_signature",
        ],
    ),
    (
        Scheme::Azure,
        &[
            "account_name",
            "account_key",
            "sas_token",
            "tenant_id",
            "client_id",
            "client_secret",
            "azure_storage_endpoint",
            "azure_allow_http",
            "azure_skip_signature",
        ],
    ),
];

impl RemoteOptions {
    /// Adds settings of the stores of `schemes`, those of the addresses that will be opened. Names are those of
    /// `object_store`, with or without `aws_`, `google_` and `azure_` before them, and the usual ones of Python's
    /// fsspec: `key`, `secret`, `token`, `anon`, `endpoint_url`, `account_name` and so on. An `endpoint_url` of
    /// `http://` allows http.
    ///
    /// ```
    /// use tensor_remote::{RemoteOptions, Scheme};
    ///
    /// # #[cfg(feature = "s3")] {
    /// let pairs = [("key", "me"), ("secret", "1234"), ("endpoint_url", "http://localhost:9000")];
    /// let options = RemoteOptions::default().with_pairs(&[Scheme::S3], pairs)?;
    /// assert_eq!(options.store["aws_secret_access_key"], "1234");
    /// assert_eq!(options.store["aws_allow_http"], "true");
    ///
    /// let unknown = RemoteOptions::default().with_pairs(&[Scheme::S3], [("secrte", "1234")]);
    /// let message = unknown.unwrap_err().to_string();
    /// assert!(message.contains("\"secrte\"") && message.contains("secret, ") && !message.contains("1234"));
    /// # }
    /// # Ok::<(), tensor_remote::RemoteError>(())
    /// ```
    ///
    /// # Errors
    /// [`Problem::Setting`] for a name that none of these stores has, which names those that they have.
    pub fn with_pairs<K: AsRef<str>, V: Into<String>>(
        mut self,
        schemes: &[Scheme],
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, RemoteError> {
        for (name, value) in pairs {
            let (name, value) = (name.as_ref().to_ascii_lowercase(), value.into());
            let mut known = false;
            for &scheme in schemes {
                known |= self.set(scheme, &name, &value);
            }
            if !known {
                return Err(unknown(schemes, &name));
            }
        }
        Ok(self)
    }

    /// Sets what one store knows under this name, if it knows it.
    fn set(&mut self, scheme: Scheme, name: &str, value: &str) -> bool {
        let Some(key) = key(scheme, name) else {
            return false;
        };
        if key == TOKEN {
            self.set_token(value);
            return true;
        }
        if name == "endpoint_url" && value.starts_with("http://") {
            let allow = format!("{}allow_http", prefix(scheme));
            self.store.entry(allow).or_insert_with(|| "true".into());
        }
        self.store.insert(key, value.to_owned());
        true
    }

    fn set_token(&mut self, value: &str) {
        let (key, value) = match value {
            "anon" => ("google_skip_signature", "true"),
            // What is found without being told.
            "google_default" | "cloud" => return,
            text if text.trim_start().starts_with('{') => ("google_service_account_key", text),
            path => ("google_application_credentials", path),
        };
        self.store.insert(key.to_owned(), value.to_owned());
    }
}

fn prefix(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => "aws_",
        Scheme::Gcs => "google_",
        Scheme::Azure => "azure_",
        _ => "",
    }
}

fn aliases(scheme: Scheme) -> &'static [Alias] {
    match scheme {
        Scheme::S3 => S3,
        Scheme::Gcs => GCS,
        Scheme::Azure => AZURE,
        _ => &[],
    }
}

/// The setting of a store that has this name, in the spelling that no other store has.
fn key(scheme: Scheme, name: &str) -> Option<String> {
    if let Some((_, key)) = aliases(scheme).iter().find(|(alias, _)| *alias == name) {
        return Some((*key).to_owned());
    }
    let prefix = prefix(scheme);
    let full = match name.starts_with(prefix) {
        true => name.to_owned(),
        false => format!("{prefix}{name}"),
    };
    let storage = format!("{prefix}storage_{name}");
    [full, storage].into_iter().find(|key| takes(scheme, key))
}

/// Whether a store takes a setting: one of its own, or whether http is allowed. What it is about is in the address,
/// and of its client no other setting has a use here.
fn takes(scheme: Scheme, key: &str) -> bool {
    #[allow(unused_macros, reason = "a build may have no store")]
    macro_rules! takes {
        ($Key:ty, $Place:pat) => {{
            use object_store::client::ClientConfigKey as Client;
            type Key = $Key;
            match key.parse::<Key>() {
                Ok($Place) | Err(_) => false,
                Ok(Key::Client(client)) => matches!(client, Client::AllowHttp),
                Ok(_) => true,
            }
        }};
    }
    match scheme {
        #[cfg(feature = "s3")]
        Scheme::S3 => takes!(
            object_store::aws::AmazonS3ConfigKey,
            object_store::aws::AmazonS3ConfigKey::Bucket
        ),
        #[cfg(feature = "gcs")]
        Scheme::Gcs => takes!(
            object_store::gcp::GoogleConfigKey,
            object_store::gcp::GoogleConfigKey::Bucket
        ),
        #[cfg(feature = "azure")]
        Scheme::Azure => takes!(
            object_store::azure::AzureConfigKey,
            object_store::azure::AzureConfigKey::ContainerName
        ),
        _ => {
            let _ = key;
            false
        }
    }
}

/// That no store has a setting of this name. Its value is not repeated: who types a secret in the wrong place is not
/// to find it in a log.
fn unknown(schemes: &[Scheme], name: &str) -> RemoteError {
    let mut known: Vec<&str> = Vec::new();
    for &scheme in schemes {
        known.extend(aliases(scheme).iter().map(|(alias, _)| *alias));
        let usual = USUAL.iter().filter(|(of, _)| *of == scheme);
        known.extend(usual.flat_map(|(_, names)| names.iter().copied()));
    }
    known.sort_unstable();
    known.dedup();
    let why = match known.as_slice() {
        [] => format!("{name:?} is no setting of these addresses, which have none"),
        known => format!(
            "no setting is called {name:?}; there are {}, and those of object_store",
            known.join(", ")
        ),
    };
    RemoteError::new(&"storage options", Problem::Setting(why))
}

#[cfg(all(test, feature = "s3", feature = "gcs", feature = "azure"))]
mod tests {
    use super::*;

    const ALL: [Scheme; 3] = [Scheme::S3, Scheme::Gcs, Scheme::Azure];

    fn set(schemes: &[Scheme], pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let options = RemoteOptions::default().with_pairs(schemes, pairs.iter().copied());
        match options {
            Ok(options) => options.store.into_iter().collect(),
            // Equal to nothing that is expected.
            Err(error) => vec![("error".to_owned(), error.to_string())],
        }
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn usual_names_are_those_of_the_store() {
        for (alias, key) in S3 {
            assert_eq!(set(&[Scheme::S3], &[(alias, "x")]), pairs(&[(key, "x")]));
        }
        let own = [("region", "eu"), ("AWS_REGION", "eu"), ("aws_region", "eu")];
        for pair in own {
            assert_eq!(set(&[Scheme::S3], &[pair]), pairs(&[("aws_region", "eu")]));
        }
        for name in ["account_name", "sas_token", "azure_storage_account_key"] {
            let set = set(&[Scheme::Azure], &[(name, "x")]);
            assert_eq!(set.len(), 1, "{name}");
            assert!(set[0].0.starts_with("azure_"), "{set:?}");
        }
    }

    /// Each name means in each store what it means there, and of all of them nothing gets lost.
    #[test]
    fn a_setting_of_several_stores_is_set_for_each() {
        assert_eq!(
            set(&ALL, &[("anon", "true")]),
            pairs(&[
                ("aws_skip_signature", "true"),
                ("azure_skip_signature", "true"),
                ("google_skip_signature", "true")
            ])
        );
        let token = set(&[Scheme::S3, Scheme::Gcs], &[("token", "a.json")]);
        assert_eq!(
            token,
            pairs(&[
                ("aws_session_token", "a.json"),
                ("google_application_credentials", "a.json")
            ])
        );
        assert_eq!(
            set(&[Scheme::Gcs], &[("token", "anon")]),
            pairs(&[("google_skip_signature", "true")])
        );
        assert_eq!(set(&[Scheme::Gcs], &[("token", "cloud")]), []);
        assert_eq!(
            set(&[Scheme::Gcs], &[("token", "{}")]),
            pairs(&[("google_service_account_key", "{}")])
        );
    }

    #[test]
    fn an_endpoint_of_http_allows_http() {
        let http = set(&[Scheme::S3], &[("endpoint_url", "http://a")]);
        assert_eq!(
            http,
            pairs(&[("aws_allow_http", "true"), ("aws_endpoint", "http://a")])
        );
        let https = set(&[Scheme::S3], &[("endpoint_url", "https://a")]);
        assert_eq!(https, pairs(&[("aws_endpoint", "https://a")]));
        let forbidden = [("allow_http", "false"), ("endpoint_url", "http://a")];
        assert_eq!(set(&[Scheme::S3], &forbidden)[0].1, "false");
    }

    #[test]
    fn what_no_store_has_is_an_error_without_its_value() {
        let none: &[Scheme] = &[];
        for (schemes, name) in [
            (&ALL[..], "secrets"),
            // The address says it, and it alone.
            (&ALL, "bucket"),
            (&ALL, "container_name"),
            // Nothing listens to these.
            (&ALL, "proxy_url"),
            (&ALL, "allow_invalid_certificates"),
            (&[Scheme::S3], "account_name"),
            (&[Scheme::Http], "key"),
            (none, "key"),
        ] {
            let options = RemoteOptions::default().with_pairs(schemes, [(name, "hunter2")]);
            let error = options.unwrap_err();
            let text = error.to_string();
            assert!(matches!(error.problem(), Problem::Setting(_)), "{text}");
            assert!(text.contains(&format!("{name:?}")), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn all_that_is_named_is_known() {
        for (scheme, names) in USUAL {
            for name in names {
                assert!(key(scheme, name).is_some(), "{name}");
            }
        }
        for scheme in ALL {
            for (alias, key) in aliases(scheme) {
                assert!(*key == TOKEN || takes(scheme, key), "{alias}");
            }
        }
    }
}
