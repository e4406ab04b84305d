//! The bus cuts off whoever sends a string that has the character U+0000: no answer has one, whatever the model says.

use super::fields;
use crate::support::served::Served;

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_has_the_character_that_the_bus_cuts_off_its_sender_for() {
    let mut served = Served::new();
    let client = served.start("kv.context = 300\n").await;
    let mut replaced = 0;
    for seed in 0..8u64 {
        let options = fields([
            ("temperature", 2.into()),
            ("max_tokens", 250u32.into()),
            ("seed", seed.into()),
        ]);
        let (text, _) = client.manager.complete("hello", options).await.unwrap();
        assert!(!text.contains('\0'));
        replaced += text.matches('\u{FFFD}').count();
    }
    assert!(replaced > 0);
    let options = fields([
        ("regex", r"[\x00a]{30}".into()),
        ("max_tokens", 60u32.into()),
        ("temperature", 1.into()),
    ]);
    let (text, _) = client.manager.complete("hello", options).await.unwrap();
    assert_eq!(text, "a".repeat(30));
}
