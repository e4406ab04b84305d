//! Stored responses of the scripted engine.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};

use super::super::super::error::Error;
use super::super::super::shared::Shared;
use super::super::super::tests::{engine, loaded, text};
use super::super::{create, kept};
use crate::engine::Client;

/// Returns the response to a request of a user.
async fn say(shared: &Shared, user: u32, body: &Json) -> Result<Json, Error> {
    let client = Client {
        name: "test".into(),
        user,
    };
    let body = Bytes::from(body.to_string());
    let answer = create(State(shared.clone()), Extension(client), body).await?;
    Ok(serde_json::from_str(&text(answer).await).expect("JSON"))
}

fn said(response: &Json) -> &str {
    let text = &response["output"][0]["content"][0]["text"];
    text.as_str().expect("a text")
}

async fn found(shared: &Shared, user: u32, id: &Json) -> Result<Json, Error> {
    let client = Client {
        name: "other".into(),
        user,
    };
    let id = Path(id.as_str().expect("an id").to_owned());
    let found = kept::get(State(shared.clone()), Extension(client), id).await?;
    Ok(serde_json::from_str(&text(found).await).expect("JSON"))
}

#[tokio::test]
async fn a_stored_response_is_continued_and_branched() {
    let shared = engine("");
    loaded(&shared).await;
    let open = || shared.front.engine().status().borrow().sessions;
    let first = json!({"instructions": "Be short.", "input": "one two", "store": true});
    let first = say(&shared, 7, &first).await.expect("an answer");
    assert_eq!(
        (said(&first), &first["store"]),
        ("sim: one two", &json!(true))
    );
    let id = first["id"].as_str().expect("an id");
    assert_eq!(id.len(), "resp_".len() + 32);
    assert_eq!(
        found(&shared, 7, &first["id"]).await.expect("it is stored"),
        first
    );
    let refused = found(&shared, 8, &first["id"])
        .await
        .expect_err("another user's");
    assert_eq!(refused.status, StatusCode::NOT_FOUND);

    let next = |input: &str, store: bool| json!({"instructions": "Be short.", "input": input, "store": store, "previous_response_id": id});
    let second = say(&shared, 7, &next("three", true))
        .await
        .expect("an answer");
    assert_eq!(second["previous_response_id"], id);
    let counts = |response: &Json| {
        let usage = &response["usage"];
        let count = |count: &Json| count.as_u64().expect("a count");
        let cached = &usage["input_tokens_details"]["cached_tokens"];
        [
            count(&usage["input_tokens"]),
            count(&usage["output_tokens"]),
            count(cached),
        ]
    };
    let [prompt, answer, _] = counts(&first);
    let [longer, _, cached] = counts(&second);
    assert_eq!((longer, cached), (prompt + answer + 1, prompt + answer));
    assert_eq!(open(), 1);
    // The first one again, which now has another turn after it.
    for store in [false, true] {
        let branch = say(&shared, 7, &next("three", store))
            .await
            .expect("an answer");
        assert_eq!((said(&branch), counts(&branch)[0]), (said(&second), longer));
        assert_eq!(open(), if store { 2 } else { 1 });
    }
    // All sessions of the user are in use: the one that was used least recently goes.
    let third = say(&shared, 7, &json!({"input": "four", "store": true})).await;
    let third = third.expect("an answer");
    assert_eq!(open(), 2);
    assert!(found(&shared, 7, &second["id"]).await.is_err());

    let stranger = say(&shared, 8, &next("three", true))
        .await
        .expect_err("another user's");
    assert_eq!(stranger.status, StatusCode::NOT_FOUND);
    assert_eq!(stranger.param.as_deref(), Some("previous_response_id"));
    let other =
        json!({"input": "x", "instructions": "Be long.", "previous_response_id": third["id"]});
    let refused = say(&shared, 7, &other)
        .await
        .expect_err("other instructions");
    assert_eq!(refused.param.as_deref(), Some("instructions"));
    let both = json!({"input": "x", "store": true, "ganglion": {"session": "kitchen"}});
    let refused = say(&shared, 7, &both).await.expect_err("two sessions");
    assert_eq!(refused.param.as_deref(), Some("ganglion.session"));

    let delete = |id: &Json| {
        let id = Path(id.as_str().expect("an id").to_owned());
        let client = Client {
            name: "other".into(),
            user: 7,
        };
        kept::delete(State(shared.clone()), Extension(client), id)
    };
    let _ = delete(&third["id"]).await.expect("it is stored");
    assert!(delete(&third["id"]).await.is_err());
    assert_eq!(open(), 1);
}

#[tokio::test]
async fn a_response_without_an_answer_is_not_stored() {
    let shared = engine("fail_after=1");
    loaded(&shared).await;
    let stored = json!({"input": "one two", "store": true});
    say(&shared, 7, &stored).await.expect_err("it fails");
    assert_eq!(shared.front.engine().status().borrow().sessions, 0);
}
