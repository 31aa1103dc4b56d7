//! Open polls: their memory, and how soon they hear of a change.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Args, base64, batch};
use crate::Outcome;
use crate::endpoint::Endpoint;
use crate::http::Client;
use crate::k2v::{Ask, Shared, ask};
use crate::process;
use crate::results::{Row, Times};

/// The time that each poll gets to begin. Polls that all begin at once would all read at once, and
/// memory that served these reads would be counted.
const OPENED_EVERY: Duration = Duration::from_micros(400);
/// The time for which the server rests before its memory is looked at.
const REST: Duration = Duration::from_secs(3);

/// Opens many polls at the first endpoint, each for an item of its own and on a connection of its
/// own, and then changes all items. Returns the server's memory for them, and the time from the
/// first change to each answer.
pub async fn open(args: &Args, endpoints: &[Endpoint], run: u64) -> Outcome<Vec<Row>> {
    let endpoint = endpoints.first().ok_or("no endpoint")?;
    let mut client = Client::connect(endpoint).await?;
    let pk = format!("polls-{run}");
    insert(&mut client, &pk, vec![None; args.polls as usize], "1").await?;
    let tokens = tokens(&mut client, &pk).await?;
    if tokens.len() as u64 != args.polls {
        return Err(format!("{} items were read", tokens.len()).into());
    }
    let memory = async || {
        tokio::time::sleep(REST).await;
        endpoint.pid.and_then(process::anonymous_mib)
    };
    let before = memory().await;
    let mut polls = JoinSet::new();
    let each = args.polls_per_connection.max(1) as usize;
    for (number, tokens) in tokens.chunks(each).enumerate() {
        let numbered = (number * each..).zip(tokens);
        let requests = numbered.map(|(n, token)| poll(&pk, &format!("{n:09}"), token));
        begin(&mut polls, endpoint, requests.collect()).await?;
        tokio::time::sleep(OPENED_EVERY * tokens.len() as u32).await;
    }
    let after = memory().await;
    if let Some(early) = polls.try_join_next() {
        let (answer, _) = early?;
        return Err(format!("a poll ended early: {answer:?}").into());
    }
    let began = Instant::now();
    let tokens = tokens.into_iter().map(Some).collect();
    insert(&mut client, &pk, tokens, "2").await?;
    let mut times = Times::new()?;
    while let Some(ended) = polls.join_next().await {
        let (answer, at) = ended?;
        times.add(&answer, at - began);
    }
    let mut rows = vec![times.row(&format!("{} polls, changed together", args.polls))];
    if let (Some(before), Some(after)) = (before, after) {
        let more = after - before;
        eprintln!("k2v: {} open polls take {more:.1} MiB", args.polls);
        let name = format!("open polls: {more:.1} MiB more than {before:.1}");
        rows.push(Row {
            name,
            ..Row::default()
        });
    }
    Ok(rows)
}

/// Begins polls on a connection of their own: several go over HTTP/2. Each returns its answer and
/// when it came.
async fn begin(
    polls: &mut JoinSet<(Outcome<()>, Instant)>,
    endpoint: &Endpoint,
    requests: Vec<Ask>,
) -> Outcome<()> {
    if let [request] = &requests[..] {
        let (mut client, request) = (Client::connect(endpoint).await?, request.clone());
        polls.spawn(async move {
            let answer = ask(&mut client, Method::GET, &request).await;
            (answer.map(drop), Instant::now())
        });
        return Ok(());
    }
    let shared = Shared::connect(endpoint).await?;
    for request in requests {
        let mut shared = shared.clone();
        polls.spawn(async move {
            let answer = shared.ask(Method::GET, &request).await;
            (answer.map(drop), Instant::now())
        });
    }
    Ok(())
}

fn poll(pk: &str, sk: &str, token: &str) -> Ask {
    Ask {
        query: format!("causality_token={token}&sort_key={sk}&timeout=600"),
        ..Ask::item(pk, sk)
    }
}

/// Inserts a value into the items of a partition key, one for each token.
async fn insert(
    client: &mut Client,
    pk: &str,
    tokens: Vec<Option<String>>,
    value: &str,
) -> Outcome<()> {
    let items = tokens.into_iter().enumerate();
    let items: Vec<_> = items
        .map(|(number, token)| {
            (
                (pk.to_owned(), format!("{number:09}")),
                token,
                base64(value.as_bytes()),
            )
        })
        .collect();
    for items in items.chunks(1000) {
        let document = batch(items.iter().cloned());
        ask(client, Method::POST, &Ask::bucket("", document)).await?;
    }
    Ok(())
}

/// Returns the tokens of the items of a partition key, in their order.
async fn tokens(client: &mut Client, pk: &str) -> Outcome<Vec<String>> {
    let (mut all, mut start) = (Vec::new(), Value::Null);
    loop {
        let search = json!([{"partitionKey": pk, "start": start}]).to_string();
        let answer = ask(client, Method::POST, &Ask::bucket("search=", search)).await?;
        let pages = answer.document()?;
        let page = pages.get(0).ok_or("no page")?;
        let items = page.get("items").and_then(Value::as_array);
        let tokens = items.into_iter().flatten();
        all.extend(tokens.filter_map(|item| Some(item.get("ct")?.as_str()?.to_owned())));
        if page.get("more").and_then(Value::as_bool) != Some(true) {
            return Ok(all);
        }
        start = page.get("nextStart").cloned().unwrap_or_default();
    }
}

/// Polls an item at the first endpoint and changes it at the second one, again and again. Returns
/// the times from the change's sending to the poll's answer, and those from the change's answer to
/// the poll's, which are 0 if the poll's answer comes first.
pub async fn wake(args: &Args, endpoints: &[Endpoint], run: u64) -> Outcome<Vec<Row>> {
    let near = endpoints.first().ok_or("no endpoint")?;
    let far = endpoints.get(1).unwrap_or(near);
    let pk = format!("wake-{run}");
    let (mut near, mut far) = (Client::connect(near).await?, Client::connect(far).await?);
    let item = |body: &str| Ask {
        body: body.to_owned().into(),
        ..Ask::item(&pk, "s")
    };
    ask(&mut near, Method::PUT, &item("0")).await?;
    let seen = ask(&mut near, Method::GET, &item("")).await?.token;
    let mut seen = seen.ok_or("an item without token")?;
    let (mut from_start, mut from_end) = (Times::new()?, Times::new()?);
    for round in 0..args.count {
        let change = Ask {
            token: Some(seen.clone()),
            ..item(&round.to_string())
        };
        let waiting = poll(&pk, "s", &seen);
        let polled = async {
            let answer = ask(&mut near, Method::GET, &waiting).await?;
            Outcome::Ok((answer, Instant::now()))
        };
        let changed = async {
            // The poll waits by then.
            tokio::time::sleep(Duration::from_millis(700)).await;
            let began = Instant::now();
            ask(&mut far, Method::PUT, &change).await?;
            Outcome::Ok((began, Instant::now()))
        };
        let ((answer, woken), (began, ended)) = tokio::try_join!(polled, changed)?;
        from_start.good(woken - began);
        from_end.good(woken.saturating_duration_since(ended));
        seen = answer.token.ok_or("an item without token")?;
    }
    Ok(vec![
        from_start.row("poll after the insert's start"),
        from_end.row("poll after its answer"),
    ])
}
