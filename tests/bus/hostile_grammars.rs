//! Clients with extremely expensive grammars get an error or a short answer, in bounded memory. Other clients' answers
//! continue.

use std::collections::HashMap;

use ganglion::bus::Error;
use ganglion::bus::proxy::Fields;
use ganglion::guide::Grammar;
use zbus::Variant;

use super::fields;
use crate::guided::hostile::hostile;
use crate::support::daemon::Client;
use crate::support::restartable::Restartable;
use crate::support::stream::Reader;

/// Returns an answer to the same question, or the reason of the refusal. Neither has a time limit.
async fn answer(client: &Client, options: Fields<'_>) -> Result<String, String> {
    let question = [("user", HashMap::from([("content", "hello".into())]))];
    let stream = match client.manager.generate(&question, options).await {
        Ok((_, stream)) => stream,
        Err(Error::InvalidOption(why)) => return Err(why),
        Err(error) => panic!("{error:?}"),
    };
    let answer = Reader::new(stream).answer().await;
    match answer.error {
        None => Ok(answer.text),
        Some((name, why)) => {
            assert!(name.ends_with(".InvalidOption"), "{name}: {why}");
            Err(why)
        }
    }
}

/// Bytes that the daemon may use for all of them: the compiled grammars of each user, and two compilations.
const MORE: u64 = 192 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_answer_continues_next_to_hostile_grammars() {
    let mut served = Restartable::new();
    let client = served
        .start("kv.context = 300\nlimits.grammar_bytes = 1048576\n")
        .await;
    let honest = || {
        let schema = r#"{"type": "array", "items": {"enum": ["go", "stop"]}, "minItems": 9, "maxItems": 12}"#;
        let options = fields([
            ("json_schema", schema.into()),
            ("seed", 7u64.into()),
            ("max_tokens", 150u32.into()),
        ]);
        answer(&client, options)
    };
    let alone = honest().await.unwrap();
    assert!(serde_json::from_str::<Vec<String>>(&alone).is_ok());
    let before = served.peak();
    let long = |text: &str| Grammar::JsonSchema(format!("{text}{}", " ".repeat(1_000_000)));
    let more = [
        ("1 MB of a schema", long("{}")),
        ("1 MB of nothing", long("")),
    ];
    let (mut refused, mut answered) = (0, 0);
    for (name, grammar) in hostile().into_iter().chain(more) {
        let option = grammar.option();
        let asked = || {
            let value: Variant<'_> = match &grammar {
                Grammar::JsonSchema(text) | Grammar::Regex(text) | Grammar::Lark(text) => {
                    text.as_str().into()
                }
                Grammar::Choice(texts) => texts.clone().into(),
                Grammar::Json | Grammar::LenientSchema(_) | Grammar::Tools { .. } => {
                    unreachable!("they are not hostile")
                }
            };
            let options = fields([
                (option, value),
                ("max_tokens", 40u32.into()),
                ("temperature", 1.into()),
            ]);
            answer(&client, options)
        };
        // Two rounds, so that the second finds the results of the first.
        let (one, honest, two) = tokio::join!(asked(), honest(), asked());
        assert_eq!(honest.unwrap(), alone, "{name}");
        for hostile in [one, two] {
            match hostile {
                Ok(_) => answered += 1,
                Err(why) => {
                    assert!(why.len() < 2_000, "{name}: {why}");
                    refused += 1;
                }
            }
        }
    }
    let more = served.peak().saturating_sub(before);
    assert!(more < MORE, "they took {} MiB", more >> 20);
    assert!(refused > 10 && answered > 10);
}
