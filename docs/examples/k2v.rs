//! K2V from Rust: a client, a mailbox and a shared counter.
//!
//!     archipel demo --json > demo.json &      # wait for the line
//!     cargo run -p archipel --example k2v demo.json
//!
//! Beside tokio it needs hyper, hyper-util, http-body-util, ring, time, hex, base64 and serde_json.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use ring::{digest, hmac};
use serde_json::{Value, json};
use tokio::net::TcpStream;

const TOKEN: &str = "x-garage-causality-token";
const SIGNED: &str = "host;x-amz-content-sha256;x-amz-date";

/// A result, or what went wrong.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A bucket's K2V items.
#[derive(Clone)]
pub struct K2v {
    /// Host and port.
    host: String,
    bucket: String,
    access_key: String,
    secret_key: String,
    region: String,
}

/// The values of an item, and the token that covers them.
pub struct Item {
    /// `None` is a deletion.
    pub values: Vec<Option<Vec<u8>>>,
    /// The causality token.
    pub token: String,
}

struct Answer {
    status: u16,
    token: Option<String>,
    body: Bytes,
}

impl K2v {
    /// Takes the line that `archipel demo --json` prints.
    pub fn of_demo(demo: &Value) -> Option<K2v> {
        let text = |name: &str| Some(demo.get(name)?.as_str()?.to_owned());
        Some(K2v {
            host: text("k2v")?.trim_start_matches("http://").to_owned(),
            bucket: text("bucket")?,
            access_key: text("access_key")?,
            secret_key: text("secret_key")?,
            region: text("region")?,
        })
    }

    /// Returns an item as it is now; `None` if there is none.
    pub async fn read(&self, pk: &str, sk: &str) -> Outcome<Option<Item>> {
        let query = [("sort_key", sk)];
        let answer = self.send(Method::GET, pk, &query, None, Vec::new()).await?;
        match answer.status {
            404 => Ok(None),
            _ => answer.item().map(Some),
        }
    }

    /// Inserts a value. It replaces the values that the token covers, and stays beside all others.
    pub async fn insert(
        &self,
        pk: &str,
        sk: &str,
        value: Vec<u8>,
        token: Option<&str>,
    ) -> Outcome<()> {
        let query = [("sort_key", sk)];
        let answer = self.send(Method::PUT, pk, &query, token, value).await?;
        answer.good().map(drop)
    }

    /// Waits until an item has changed since a token was given out, and returns it. Returns `None`
    /// if it does not change in time.
    pub async fn poll(&self, pk: &str, sk: &str, token: &str, s: u64) -> Outcome<Option<Item>> {
        let seconds = s.to_string();
        let query = [
            ("causality_token", token),
            ("sort_key", sk),
            ("timeout", &seconds),
        ];
        let answer = self.send(Method::GET, pk, &query, None, Vec::new()).await?;
        match answer.status {
            304 => Ok(None),
            _ => answer.item().map(Some),
        }
    }

    /// Returns all items of a partition key with their values, by sort key.
    pub async fn read_all(&self, pk: &str) -> Outcome<Vec<(String, Vec<Vec<u8>>)>> {
        let (mut all, mut start) = (Vec::new(), Value::Null);
        loop {
            let search = json!([{"partitionKey": pk, "start": start}]).to_string();
            let query = [("search", "")];
            let answer = self.send(Method::POST, "", &query, None, search.into());
            let found: Value = serde_json::from_slice(&answer.await?.good()?.body)?;
            let page = found.get(0).ok_or("no page")?;
            for item in page["items"].as_array().into_iter().flatten() {
                let values = item["v"].as_array().into_iter().flatten();
                let values = values.filter_map(Value::as_str).map(|v| STANDARD.decode(v));
                let values = values.collect::<Result<Vec<_>, _>>()?;
                all.push((item["sk"].as_str().unwrap_or_default().to_owned(), values));
            }
            if page["more"] != json!(true) {
                return Ok(all);
            }
            start = page["nextStart"].clone();
        }
    }

    /// Signs a request (AWS Signature Version 4, service `k2v`) and sends it. The query is sorted.
    async fn send(
        &self,
        method: Method,
        pk: &str,
        query: &[(&str, &str)],
        token: Option<&str>,
        body: Vec<u8>,
    ) -> Outcome<Answer> {
        let path = match pk {
            "" => format!("/{}", self.bucket),
            pk => format!("/{}/{}", self.bucket, encode(pk)),
        };
        let query = query.iter();
        let query = query.map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        let query = query.collect::<Vec<_>>().join("&");
        let format =
            time::macros::format_description!("[year][month][day]T[hour][minute][second]Z");
        let stamp = time::OffsetDateTime::now_utc().format(format)?;
        let (host, day, hashed) = (&self.host, &stamp[..8], hash(&body));
        // All services but S3 encode the path twice for the signature.
        let twice = path.replace('%', "%25");
        let canonical = format!(
            "{method}\n{twice}\n{query}\nhost:{host}\nx-amz-content-sha256:{hashed}\n\
             x-amz-date:{stamp}\n\n{SIGNED}\n{hashed}"
        );
        let scope = format!("{day}/{}/k2v/aws4_request", self.region);
        let canonical = hash(canonical.as_bytes());
        let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{canonical}");
        let secret = format!("AWS4{}", self.secret_key).into_bytes();
        let steps = [day, &self.region, "k2v", "aws4_request"];
        let key = steps.iter().fold(secret, |key, step| mac(&key, step));
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={SIGNED},Signature={}",
            self.access_key,
            hex::encode(mac(&key, &text))
        );
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{path}?{query}"))
            .header("host", host)
            .header("x-amz-date", &stamp)
            .header("x-amz-content-sha256", hashed)
            .header("authorization", authorization)
            .header("accept", "application/json");
        if let Some(token) = token {
            request = request.header(TOKEN, token);
        }
        let stream = TokioIo::new(TcpStream::connect(host).await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        let connection = tokio::spawn(connection);
        let answer = sender
            .send_request(request.body(Full::<Bytes>::from(body))?)
            .await?;
        let token = answer.headers().get(TOKEN);
        let token = token.map(|token| token.to_str().map(str::to_owned));
        let (status, token) = (answer.status().as_u16(), token.transpose()?);
        let body = answer.into_body().collect().await?.to_bytes();
        connection.abort();
        Ok(Answer {
            status,
            token,
            body,
        })
    }
}

impl Answer {
    fn good(self) -> Outcome<Answer> {
        match self.status {
            200..=299 => Ok(self),
            status => Err(format!("{status}: {}", String::from_utf8_lossy(&self.body)).into()),
        }
    }

    fn item(self) -> Outcome<Item> {
        let answer = self.good()?;
        let values: Vec<Option<String>> = serde_json::from_slice(&answer.body)?;
        let decode = |value: Option<String>| value.map(|value| STANDARD.decode(value)).transpose();
        Ok(Item {
            values: values.into_iter().map(decode).collect::<Result<_, _>>()?,
            token: answer.token.ok_or("an item without a token")?,
        })
    }
}

fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let bytes = text.bytes();
    bytes
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

fn hash(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

/// Mails in the order of their numbers. Any number of clients deliver and read.
pub struct Mailbox {
    k2v: K2v,
    pk: String,
}

impl Mailbox {
    /// Returns the mailbox of this name.
    pub fn new(k2v: &K2v, name: &str) -> Mailbox {
        Mailbox {
            k2v: k2v.clone(),
            pk: format!("mailbox:{name}"),
        }
    }

    /// Stores a mail.
    pub async fn deliver(&self, number: u64, mail: &str) -> Outcome<()> {
        let sk = format!("{number:020}");
        self.k2v.insert(&self.pk, &sk, mail.into(), None).await
    }

    /// Returns all mails.
    pub async fn mails(&self) -> Outcome<Vec<String>> {
        let items = self.k2v.read_all(&self.pk).await?;
        let mails = items.into_iter().flat_map(|(_, values)| values);
        Ok(mails.map(String::from_utf8).collect::<Result<_, _>>()?)
    }
}

/// A number that many clients raise, also at the same time at nodes that are far apart.
///
/// Each client keeps its own share under its own sort key, so that nobody overwrites anybody.
pub struct Counter {
    k2v: K2v,
    pk: String,
    client: String,
}

impl Counter {
    /// Returns the counter of this name for a client. Each client has a name of its own.
    pub fn new(k2v: &K2v, name: &str, client: &str) -> Counter {
        Counter {
            k2v: k2v.clone(),
            pk: format!("counter:{name}"),
            client: client.to_owned(),
        }
    }

    /// Adds to the counter.
    pub async fn add(&self, number: u64) -> Outcome<()> {
        let item = self.k2v.read(&self.pk, &self.client).await?;
        let values = item.iter().flat_map(|item| item.values.iter().flatten());
        let share = largest(values)? + number;
        let token = item.as_ref().map(|item| item.token.as_str());
        let value = share.to_string().into_bytes();
        self.k2v.insert(&self.pk, &self.client, value, token).await
    }

    /// Returns the sum of all shares.
    pub async fn total(&self) -> Outcome<u64> {
        let shares = self.k2v.read_all(&self.pk).await?;
        shares
            .iter()
            .map(|(_, values)| largest(values.iter()))
            .sum()
    }
}

/// Several values are left by an insert whose answer was lost and that was sent again.
fn largest<'a>(values: impl Iterator<Item = &'a Vec<u8>>) -> Outcome<u64> {
    let mut largest = 0;
    for value in values {
        largest = largest.max(std::str::from_utf8(value)?.parse()?);
    }
    Ok(largest)
}

/// Runs all of it against the demo.
pub async fn run(demo: &Value) -> Outcome<()> {
    let k2v = K2v::of_demo(demo).ok_or("this is not the line of a demo")?;
    let inbox = Mailbox::new(&k2v, "INBOX");
    inbox.deliver(1, "Hello").await?;
    inbox.deliver(2, "Goodbye").await?;
    println!("mails: {:?}", inbox.mails().await?);
    let (paris, tokyo) = (
        Counter::new(&k2v, "visits", "paris"),
        Counter::new(&k2v, "visits", "tokyo"),
    );
    tokio::try_join!(paris.add(2), tokyo.add(3))?;
    println!("visits: {}", paris.total().await?);
    k2v.insert("flags", "beta", b"off".to_vec(), None).await?;
    let seen = k2v.read("flags", "beta").await?.ok_or("no flag")?;
    let switch = k2v.insert("flags", "beta", b"on".to_vec(), Some(&seen.token));
    let (news, ()) = tokio::try_join!(k2v.poll("flags", "beta", &seen.token, 60), switch)?;
    println!("beta is on: {}", news.is_some());
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let file = std::env::args()
        .nth(1)
        .ok_or("give the file with the demo's line")?;
    let line = std::fs::read_to_string(file)?;
    run(&serde_json::from_str(
        line.lines().next().unwrap_or_default(),
    )?)
    .await
}
