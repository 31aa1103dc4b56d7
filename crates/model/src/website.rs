//! The website configuration of a bucket, as S3 has it, and which redirect it asks for.

use serde::{Deserialize, Serialize};

/// The website of a bucket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Website {
    /// All requests are redirected to another host.
    #[serde(rename = "redirect")]
    Redirect(RedirectAll),
    /// Objects are pages.
    #[serde(rename = "pages")]
    Pages(Pages),
}

/// The host to which all requests are redirected.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RedirectAll {
    /// The host, possibly with a port or a path.
    pub host: String,
    /// `http` or `https`; `None` for that of the request.
    #[serde(default)]
    pub protocol: Option<String>,
}

/// A website whose pages are objects.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pages {
    /// The name of the page of a folder, such as `index.html`: not empty, without slash.
    pub index: String,
    /// The key of the page that tells of errors.
    #[serde(default)]
    pub error: Option<String>,
    /// The routing rules. The first that applies counts.
    #[serde(default)]
    pub rules: Vec<RoutingRule>,
}

/// A routing rule: a condition and a redirect.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RoutingRule {
    /// The beginning of the keys to which the rule applies.
    #[serde(default)]
    pub key_prefix: Option<String>,
    /// The status of the errors to which the rule applies. Without one, the rule applies before
    /// an object is looked for.
    #[serde(default)]
    pub error_status: Option<u16>,
    /// The redirect.
    pub redirect: Redirect,
}

/// The redirect of a routing rule. Absent parts stay as they are in the request.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Redirect {
    /// The host.
    #[serde(default)]
    pub host: Option<String>,
    /// `http` or `https`.
    #[serde(default)]
    pub protocol: Option<String>,
    /// The status of the redirect; `None` for 301.
    #[serde(default)]
    pub status: Option<u16>,
    /// The new key.
    #[serde(default)]
    pub key: Option<String>,
    /// The text that replaces the prefix of the rule's condition in the key.
    #[serde(default)]
    pub key_prefix: Option<String>,
}

impl Pages {
    /// Returns the key of the object that is the page of `key`: folders have an index page.
    pub fn page_of(&self, key: &str) -> String {
        if key.is_empty() || key.ends_with('/') {
            format!("{key}{}", self.index)
        } else {
            key.to_owned()
        }
    }

    /// Returns the first rule that applies to `key` before an object is looked for (`error` is
    /// `None`), or after that ended with an error of this status.
    pub fn rule(&self, key: &str, error: Option<u16>) -> Option<&RoutingRule> {
        let applies = |rule: &&RoutingRule| {
            let prefix = rule.key_prefix.as_deref().unwrap_or_default();
            rule.error_status == error && key.starts_with(prefix)
        };
        self.rules.iter().find(applies)
    }
}

impl RoutingRule {
    /// Returns the key to which a request for `key` is redirected: what the rule says, and what
    /// follows it from the request.
    pub fn new_key<'a>(&'a self, key: &'a str) -> (&'a str, &'a str) {
        let redirect = &self.redirect;
        if let Some(new) = &redirect.key {
            return (new, "");
        }
        let Some(new_prefix) = &redirect.key_prefix else {
            return ("", key);
        };
        let old = self.key_prefix.as_deref().unwrap_or_default();
        (new_prefix, key.strip_prefix(old).unwrap_or(key))
    }
}

#[cfg(test)]
mod tests {
    use super::{Pages, Redirect, RoutingRule};

    fn pages(rules: Vec<RoutingRule>) -> Pages {
        Pages {
            index: "index.html".into(),
            error: None,
            rules,
        }
    }

    #[test]
    fn folders_have_an_index_page() {
        let pages = pages(Vec::new());
        for (key, page) in [
            ("", "index.html"),
            ("a/", "a/index.html"),
            ("a", "a"),
            ("a/b.html", "a/b.html"),
        ] {
            assert_eq!(pages.page_of(key), page);
        }
    }

    #[test]
    fn first_rule_that_applies_counts() {
        let rule = |prefix: Option<&str>, status: Option<u16>, to: &str| RoutingRule {
            key_prefix: prefix.map(String::from),
            error_status: status,
            redirect: Redirect {
                key_prefix: Some(to.into()),
                ..Redirect::default()
            },
        };
        let pages = pages(vec![
            rule(Some("docs/"), None, "documents/"),
            rule(Some("docs/"), Some(404), "lost/"),
            rule(None, Some(404), "all-lost/"),
        ]);
        let new_key = |key, error| pages.rule(key, error).map(|rule| rule.new_key(key));
        assert_eq!(new_key("docs/a", None), Some(("documents/", "a")));
        assert_eq!(new_key("docs/a", Some(404)), Some(("lost/", "a")));
        assert_eq!(new_key("else", Some(404)), Some(("all-lost/", "else")));
        assert_eq!(new_key("else", None), None);
        assert_eq!(new_key("docs/a", Some(412)), None);
    }

    #[test]
    fn replaced_keys() {
        let rule = |key: Option<&str>, prefix: Option<&str>| RoutingRule {
            key_prefix: Some("old/".into()),
            error_status: None,
            redirect: Redirect {
                key: key.map(String::from),
                key_prefix: prefix.map(String::from),
                ..Redirect::default()
            },
        };
        assert_eq!(rule(None, None).new_key("old/a"), ("", "old/a"));
        assert_eq!(rule(None, Some("")).new_key("old/a"), ("", "a"));
        assert_eq!(rule(Some("x"), None).new_key("old/a"), ("x", ""));
    }
}
