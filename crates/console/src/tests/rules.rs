//! A bucket's rules, and the reasons of decisions.

use archipel_model::{BlockedEncryption, DefaultEncryption};
use http::StatusCode;

use super::{Reply, Site, logged_in};
use crate::backend::encode;

const RULES: &str = "/buckets/photos/rules";
const POLICY: &str = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A\
    %22Allow%22%2C%22Principal%22%3A%22%2A%22%2C%22Action%22%3A%22s3%3AGetObject%22%2C%22Resource%22\
    %3A%22arn%3Aaws%3As3%3A%3A%3Aphotos%2Fopen%2F%2A%22%7D%5D%7D";

/// Returns the rule that lets the pages of an origin get objects.
fn cors(origin: &str) -> String {
    format!(r#"{{"rules": [{{"origins": ["https://{origin}.example"], "methods": ["GET"]}}]}}"#)
}

impl Site {
    /// Changes a rule, and returns the page with what it became.
    pub(super) async fn set_rule(&self, form: &str) -> String {
        let reply = self.send_rule(form).await;
        assert_eq!(reply.header("location"), RULES, "{form}: {}", reply.text);
        self.get(RULES).await.text
    }

    /// Sends a form of the page as it is now.
    pub(super) async fn send_rule(&self, form: &str) -> Reply {
        let mark = self.mark_of_rule(form).await;
        self.post(RULES, &format!("{form}&shown={mark}")).await
    }

    /// Returns the mark in a form of the page, if it has one.
    pub(super) async fn mark_of_rule(&self, form: &str) -> String {
        let change = form.split(['=', '&']).nth(1).unwrap();
        let behind = format!("name=\"change\" value=\"{change}\"><input type=\"hidden\" ");
        self.mark(RULES, &behind).await
    }

    pub(super) async fn refuses(&self, form: &str) -> String {
        let reply = self.send_rule(form).await;
        assert_eq!(
            reply.status,
            StatusCode::BAD_REQUEST,
            "{form}: {}",
            reply.text
        );
        reply.text
    }
}

#[tokio::test]
async fn rules_of_the_admin_api_are_changed_and_shown() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let page = site.set_rule("change=keep-versions").await;
    assert!(page.contains("value=\"suspend-versions\""), "{page}");
    let page = site.set_rule("change=suspend-versions").await;
    assert!(page.contains("value=\"keep-versions\""));
    let page = site.set_rule("change=quota&bytes=20+GiB&objects=500").await;
    assert!(page.contains("value=\"21474836480\"") && page.contains("value=\"500\""));
    let page = site.set_rule("change=quota&bytes=&objects=").await;
    assert!(!page.contains("21474836480"));
    let page = site
        .set_rule("change=tags&tags=team%3Da%0D%0Acost%3Db%3Dc")
        .await;
    assert!(page.contains("team=a\ncost=b=c\n"), "{page}");
    let page = site
        .set_rule("change=add-rule&prefix=tmp%2F&expire=7&noncurrent=&abort=2")
        .await;
    assert!(page.contains("tmp/…") && page.contains("objects expire after 7 days; incomplete"));
    let page = site.set_rule("change=add-rule&prefix=&noncurrent=30").await;
    assert!(page.contains("tmp/…") && page.contains("old versions go after 30 days"));
    site.refuses("change=lifecycle&text=").await;
    site.refuses("change=lifecycle&text=%20%0D%0A").await;
    let page = site.get(RULES).await.text;
    assert!(page.contains("tmp/…"), "a lost text deletes nothing");
    let page = site
        .set_rule("change=lifecycle&text=%7B%22rules%22%3A%5B%5D%7D")
        .await;
    assert!(!page.contains("tmp/…"));
    site.set_rule("change=keep-versions").await;
    let page = site
        .set_rule("change=lock&mode=governance&days=3&years=")
        .await;
    assert!(page.contains("Versions can be protected."), "{page}");
    assert!(page.contains("value=\"governance\" selected"));
    site.refuses("change=lock&mode=compliance&days=3").await;
    let page = site.get(RULES).await.text;
    assert!(page.contains("value=\"governance\" selected"));
    let page = site
        .set_rule("change=lock&mode=compliance&days=3&sure=on")
        .await;
    assert!(page.contains("value=\"compliance\" selected"), "{page}");
}

#[tokio::test]
async fn lifecycle_rule_is_removed_by_its_name() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let rule = |id: &str| format!(r#"{{"id": "{id}", "prefix": "{id}/", "expire_days": 1}}"#);
    let rules = format!(r#"{{"rules": [{}, {}]}}"#, rule("a b+%"), rule("other"));
    site.set_rule(&format!("change=lifecycle&text={}", encode(&rules)))
        .await;
    let remove = format!("change=remove-rule&rule={}", encode(&encode("a b+%")));
    let page = site.set_rule(&remove).await;
    assert!(!page.contains("a b+%/…") && page.contains("other/…"));
    let page = site.set_rule("change=remove-rule&rule=other").await;
    assert!(!page.contains("other/…"), "{page}");
}

/// Two operators look at the same page. The second one to send a form hears of the change of the first.
#[tokio::test]
async fn form_of_a_page_that_is_not_true_any_more_changes_nothing() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let key = site.model.access_keys().unwrap().remove(0);
    let policy = |action: &str| {
        let id = &key.id;
        format!(
            r#"{{"Statement": {{"Effect": "Allow", "Principal": {{"AWS": "arn:aws:iam::000000000000:user/{id}"}},
            "Action": "s3:{action}", "Resource": "arn:aws:s3:::photos/*"}}}}"#
        )
    };
    let rules = |prefix: &str| {
        format!(r#"{{"rules": [{{"id": "one", "prefix": "{prefix}", "expire_days": 1}}]}}"#)
    };
    let text = |change: &str, text: String| format!("change={change}&text={}", encode(&text));
    let cases = [
        (
            text("lifecycle", rules("first/")),
            text("lifecycle", rules("second/")),
            ("first/…", "second/…"),
        ),
        (
            text("policy", policy("GetObject")),
            text("policy", policy("PutObject")),
            ("s3:GetObject", "s3:PutObject"),
        ),
        (
            text("cors", cors("first")),
            text("cors", cors("second")),
            ("https://first.example", "https://second.example"),
        ),
        (
            "change=tags&tags=team%3Dfirst".into(),
            "change=tags&tags=team%3Dsecond".into(),
            ("team=first", "team=second"),
        ),
    ];
    for (first, second, (is_there, is_lost)) in cases {
        let seen = site.mark_of_rule(&first).await;
        site.set_rule(&first).await;
        for shown in [seen.as_str(), "", "wrong"] {
            let late = site.post(RULES, &format!("{second}&shown={shown}")).await;
            assert_eq!(late.status, StatusCode::PRECONDITION_FAILED, "{second}");
        }
        let page = site.get(RULES).await.text;
        assert!(page.contains(is_there) && !page.contains(is_lost), "{page}");
        site.set_rule(&second).await;
    }
    // A text is deleted only while it is the one that was shown.
    let seen = site.mark_of_rule("change=cors").await;
    site.set_rule(&text("cors", cors("third"))).await;
    let form = format!("change=cors&text=&shown={seen}");
    let late = site.post(RULES, &form).await;
    assert_eq!(late.status, StatusCode::PRECONDITION_FAILED);
    // A rule is removed only from the rules that were shown, and added to those that are there.
    let seen = site.mark_of_rule("change=lifecycle").await;
    site.set_rule("change=add-rule&prefix=third%2F&expire=7")
        .await;
    let remove = format!("change=remove-rule&rule=one&shown={seen}");
    let late = site.post(RULES, &remove).await;
    assert_eq!(late.status, StatusCode::PRECONDITION_FAILED);
    let page = site.get(RULES).await.text;
    assert!(page.contains("second/…") && page.contains("third/…"));
}

/// Operators save the same form in the same moment, so that the page of each is still true when its form is looked at.
#[tokio::test]
async fn of_forms_that_are_sent_at_once_one_changes_the_text() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let forms = |change: &str, number: u32| match change {
        "tags" => format!("change=tags&tags=team%3Dt{number}"),
        change => {
            let rules = cors(&format!("t{number}"));
            format!("change={change}&text={}", encode(&rules))
        }
    };
    for change in ["tags", "cors"] {
        for round in 0..2 {
            let seen = site.mark_of_rule(&format!("change={change}")).await;
            let sent: Vec<String> = (0..8)
                .map(|number| format!("{}&shown={seen}", forms(change, round * 8 + number)))
                .collect();
            let sent = sent.iter().map(|form| site.post(RULES, form));
            let sent = futures_util::future::join_all(sent).await;
            let (done, late): (Vec<_>, Vec<_>) = sent
                .iter()
                .map(|reply| reply.status)
                .partition(|status| *status == StatusCode::SEE_OTHER);
            assert_eq!(done.len(), 1, "{change}: {late:?}");
            let all_late = late.iter().all(|s| *s == StatusCode::PRECONDITION_FAILED);
            assert!(all_late, "{change}: {late:?}");
        }
    }
}

/// Saved again it would be refused again: the page that it is of is not true any more.
#[tokio::test]
async fn form_that_is_late_shows_its_text_and_leads_to_the_page() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let other = "0".repeat(64);
    let to_page = format!("href=\"{RULES}\"");
    let save = "<button>Save</button>";
    for (form, text) in [
        ("change=tags&tags=team%3Dmine", "team=mine</textarea>"),
        (
            "change=policy&text=mine+%3Cb%3E",
            "mine &#60;b&#62;</textarea>",
        ),
        (
            "change=cors&text=%7B%22rules%22%3A%5B%5D%7D",
            "[]}</textarea>",
        ),
    ] {
        let late = site.post(RULES, &format!("{form}&shown={other}")).await;
        assert_eq!(late.status, StatusCode::PRECONDITION_FAILED, "{form}");
        let is_shown = late.text.contains(text) && late.text.contains(&to_page);
        assert!(is_shown && !late.text.contains(save), "{}", late.text);
    }
    // A text that is only wrong can be corrected.
    let again = site.refuses("change=tags&tags=nothing").await;
    let is_shown = again.contains("name=\"tags\"") && again.contains(">nothing</textarea>");
    assert!(is_shown && again.contains(save), "{again}");
}

#[tokio::test]
async fn rule_that_is_told_as_added_is_there_whatever_others_add_at_once() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let forms: Vec<String> = (0..8)
        .map(|number| format!("change=add-rule&prefix=p{number}%2F&expire=7"))
        .collect();
    let added = forms.iter().map(|form| site.post(RULES, form));
    let added = futures_util::future::join_all(added).await;
    let page = site.get(RULES).await.text;
    for (number, added) in added.iter().enumerate() {
        let is_there = added.status == StatusCode::SEE_OTHER;
        let is_refused = added.status == StatusCode::PRECONDITION_FAILED;
        assert!(is_there || is_refused, "{}", added.text);
        assert_eq!(page.contains(&format!("p{number}/…")), is_there, "{number}");
    }
}

#[tokio::test]
async fn rules_that_s3_has_too_are_changed_and_shown() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let set = format!("change=cors&text={}", encode(&cors("app")));
    let page = site.set_rule(&set).await;
    let origin = "&#34;https://app.example&#34;";
    assert!(page.contains(origin), "{page}");
    let page = site.set_rule("change=cors&text=").await;
    assert!(!page.contains(origin));
    let page = site.set_rule("change=block&BlockPublicPolicy=on").await;
    assert!(
        page.contains("name=\"BlockPublicPolicy\" checked"),
        "{page}"
    );
    assert!(page.contains("name=\"IgnorePublicAcls\">"), "{page}");
    site.set_rule("change=block").await;
    let page = site
        .set_rule("change=ownership&ownership=ObjectWriter")
        .await;
    assert!(page.contains("value=\"ObjectWriter\" selected"), "{page}");
    site.set_rule("change=notification&text=").await;
    let nowhere = r#"{"rules": [{"target": "none", "events": ["s3:ObjectCreated:*"]}]}"#;
    let nowhere = format!("change=notification&text={}", encode(nowhere));
    assert!(site.refuses(&nowhere).await.contains("declares no target"));
}

#[tokio::test]
async fn encryption_is_changed_and_a_block_is_shown() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let page = site.set_rule("change=encryption").await;
    assert!(page.contains("value=\"no-encryption\"") && !page.contains("SSE-C"));
    let bucket = site.model.bucket("photos").unwrap().unwrap();
    let block = DefaultEncryption {
        blocked: Some(BlockedEncryption::Customer),
        ..DefaultEncryption::default()
    };
    let set = site.model.set_default_encryption(&bucket, block);
    set.await.unwrap();
    let page = site.set_rule("change=no-encryption").await;
    assert!(page.contains("value=\"encryption\"") && page.contains("SSE-C"));
}

#[tokio::test]
async fn what_is_refused_is_shown_again_with_the_reason() {
    let site = logged_in().await;
    site.bucket("photos").await;
    for form in [
        "change=quota&bytes=many",
        "change=quota&objects=-1",
        "change=tags&tags=nothing",
        "change=add-rule&prefix=x",
        "change=lock&mode=governance",
        "change=lock&mode=strict&days=1",
        "change=ownership&ownership=%3Cx%2F%3E",
        "change=paint",
    ] {
        site.refuses(form).await;
    }
    let again = site.refuses("change=policy&text=%7B%22a%22%3A1%7D").await;
    assert!(
        again.contains("role=\"alert\"") && again.contains("{&#34;a&#34;:1}"),
        "{again}"
    );
    let again = site.refuses("change=lifecycle&text=oops").await;
    assert!(
        again.contains("role=\"alert\"") && again.contains("oops"),
        "{again}"
    );
    let again = site.refuses("change=cors&text=%3Cx%3E").await;
    assert!(again.contains("&#60;x&#62;"), "{again}");
    let again = site.refuses("change=cors&text=%7B%22a%22%3A1%7D").await;
    assert!(again.contains("unknown field"), "{again}");
}

#[tokio::test]
async fn decision_is_explained() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let ask = async |object: &str| {
        let query = "key=anonymous&action=s3%3AGetObject";
        let path = format!("/access?{query}&resource=photos%2F{object}");
        site.get(&path).await.text
    };
    assert!(ask("open%2Fx").await.contains("Denied"));
    // New buckets are closed to the public.
    let policy = format!("change=policy&text={POLICY}");
    let closed = site.send_rule(&policy).await;
    assert!(closed.status.is_client_error(), "{}", closed.status);
    assert!(closed.text.contains("the bucket blocks public access"));
    let strange = "/access?key=anonymous&action=x&resource=photos&context=nothing";
    let told = site.get(strange).await;
    assert!(told.text.contains("role=\"alert\""), "{}", told.text);
}

#[tokio::test]
async fn tags_of_an_object_are_changed_and_removed() {
    let site = logged_in().await;
    site.bucket("photos").await;
    site.put("/buckets/photos/upload?o=a%20b", &site.csrf, "x")
        .await;
    let page = "/buckets/photos/object?o=a%20b";
    let set = async |tags: &str| {
        let mark = site.mark(page, "/buckets/photos/tags").await;
        let form = format!("o=a%2520b&k=&shown={mark}&tags={tags}");
        site.post("/buckets/photos/tags", &form).await
    };
    let reply = set("team%3Da%0D%0Acost%3D1%2B1").await;
    assert_eq!(reply.header("location"), page, "{}", reply.text);
    let shown = site.get(page).await.text;
    assert!(
        shown.contains("Tag team") && shown.contains("team=a\ncost=1+1\n"),
        "{shown}"
    );
    let wrong = set("no+tag").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    let field = "<input type=\"hidden\" name=\"o\" value=\"a%20b\">";
    assert!(wrong.text.contains(field), "{}", wrong.text);
    assert!(wrong.text.contains(">no tag</textarea>") && wrong.text.contains("Save</button>"));
    let late = "o=a%2520b&k=&shown=0&tags=mine%3D1";
    let late = site.post("/buckets/photos/tags", late).await;
    assert_eq!(late.status, StatusCode::PRECONDITION_FAILED);
    assert!(late.text.contains(">mine=1</textarea>") && !late.text.contains("Save</button>"));
    assert!(
        late.text.contains(&format!("href=\"{page}\"")),
        "{}",
        late.text
    );
    set("").await;
    assert!(!site.get(page).await.text.contains("Tag team"));
}

#[tokio::test]
async fn long_rules_are_read() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let form = format!("change=lifecycle&text={}", "x".repeat(1 << 20));
    // It is read as JSON, and not refused for its length.
    site.refuses(&form).await;
}
