use super::*;
use crate::s3::error::Code;

/// Returns the body that arrives when the work takes so long, and whether the status was still
/// open.
async fn sent(seconds: u64, outcome: S3Result<&'static str>) -> S3Result<String> {
    let begun = answer(async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let mut document = Writer::bare("Result");
        document.characters(outcome?);
        Ok(document)
    });
    let answer = finish(begun.await?, |error| {
        error.to_xml("/bucket/key", "request", "host")
    });
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["content-type"], "application/xml");
    let body = answer.into_body().collect().await;
    let body = body.map_err(|_| Code::InternalError)?.to_bytes();
    Ok(String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test(start_paused = true)]
async fn quick_work_gets_an_ordinary_answer() {
    let document = format!("{DECLARATION}<Result>done</Result>");
    assert_eq!(sent(1, Ok("done")).await.unwrap(), document);
    let failed = sent(1, Err(Code::PreconditionFailed.into())).await;
    assert_eq!(failed.unwrap_err().code(), Code::PreconditionFailed);
}

#[tokio::test(start_paused = true)]
async fn slow_work_sends_white_space_first() {
    let document = format!("{DECLARATION}   <Result>done</Result>");
    assert_eq!(sent(45, Ok("done")).await.unwrap(), document);
}

#[tokio::test(start_paused = true)]
async fn late_failure_is_reported_in_the_document() {
    let body = sent(15, Err(Code::PreconditionFailed.into()))
        .await
        .unwrap();
    let head = format!("{DECLARATION}<Error><Code>PreconditionFailed</Code>");
    assert!(body.starts_with(&head), "{body}");
    assert_eq!(body.matches("<?xml").count(), 1);
}
