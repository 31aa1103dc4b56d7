//! Links that log in to the web console, once.

use archipel_api::admin::types::{CreateToken, NodeStatus, TokenInfo, TokenWithSecret};

use crate::client::{Client, Failure, path};

/// The name of the tokens that links hold, and of those that sessions got in exchange.
const NAME: &str = "console login";

/// A link that nobody follows counts for so long.
const VALID_SECONDS: u64 = 3600;

/// Makes a link that logs in to the console of a node, with all rights. Revokes tokens of earlier
/// links and sessions that have expired.
///
/// # Errors
/// A text for the operator: the console is closed, or the request is refused.
pub async fn login_link(admin: &Client) -> Result<String, Failure> {
    let status: NodeStatus = admin.get("/v1/status").await?;
    let closed = || {
        let fix = "set console.listen, such as \"127.0.0.1:3905\", and restart the node";
        Failure::new(format!("this node has no console; fix: {fix}"))
    };
    let console = status.console_endpoint.ok_or_else(closed)?;
    let tokens: Vec<TokenInfo> = admin.list("/v1/tokens").await?;
    for old in tokens.iter().filter(|t| t.name == NAME && t.expired) {
        admin.delete(&path(&["v1", "tokens", &old.id])).await?;
    }
    let ask = CreateToken {
        name: NAME.into(),
        scopes: vec!["all:write".into()],
        valid_seconds: Some(VALID_SECONDS),
    };
    let made: TokenWithSecret = admin.post("/v1/tokens", &ask).await?;
    Ok(format!("{console}/login#{}", made.secret))
}
