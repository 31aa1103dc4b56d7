use super::*;

fn query(text: &str) -> Query {
    Query::parse(text).unwrap()
}

#[test]
fn events_are_those_of_s3_and_of_its_clients() {
    let twice = "events=s3:ObjectCreated:*&ping=1&events=s3%3AObjectCreated%3A%2A";
    let asked = query(&format!("{twice}&events=s3:ObjectAccessed:*"));
    let found = events(&asked).unwrap();
    assert_eq!(found, ["s3:ObjectAccessed:*", "s3:ObjectCreated:*"]);
    for wrong in ["events=", "events=s3:ObjectCreated:*&events=put"] {
        let refused = events(&query(wrong)).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{wrong}");
    }
}

#[test]
fn filters_and_pings_are_bounded() {
    let asked = query("prefix=a%2F&suffix=.jpg");
    assert_eq!(filter(&asked, "prefix").unwrap(), "a/");
    assert_eq!(filter(&asked, "suffix").unwrap(), ".jpg");
    assert_eq!(filter(&query(""), "suffix").unwrap(), "");
    let long = format!("prefix={}", "x".repeat(MAX_FILTER_BYTES + 1));
    assert!(filter(&query(&long), "prefix").is_err());
    assert!(filter(&query("prefix=a&prefix=b"), "prefix").is_err());

    assert_eq!(ping(&query("")).unwrap().text, b" ");
    assert_eq!(ping(&query("ping=")).unwrap().pause, USUAL_PAUSE);
    let ten = ping(&query("ping=10")).unwrap();
    assert_eq!((ten.pause.as_secs(), ten.text.last()), (10, Some(&b'\n')));
    let rare = ping(&query("ping=4000000000")).unwrap();
    assert_eq!(rare.pause.as_secs(), LONGEST_PAUSE_S);
    for wrong in ["ping=0", "ping=-1", "ping=x", "ping=1.5", "ping=1&ping=2"] {
        assert!(ping(&query(wrong)).is_err(), "{wrong}");
    }
}
