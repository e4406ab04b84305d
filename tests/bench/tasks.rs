//! The tasks of answers with guesses: each quotes its prompt, or does not.

use ganglion::engine::{Message, Role};
use ganglion::guide::Grammar;

/// A question, and the bounds of its answer.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) name: &'static str,
    pub(crate) messages: Vec<Message>,
    pub(crate) grammar: Option<Grammar>,
    pub(crate) temperature: f32,
    pub(crate) tokens: usize,
}

const REPORT: &str = "\
At 09:14 the patrol robot left dock B and drove along corridor 7 to the loading bay. It met two pallets near gate 3, which had not \
been on the map of Tuesday, and went around them on the left side. The battery was at 81 percent when it passed the freezer. At \
09:22 it saw that the door of storage room 12 stood open, took three pictures, and told the night shift. Nobody answered. It \
closed the door with the arm, waited for the green light, and went on to the workshop. There the floor was wet for about four \
metres, so it slowed to 0.2 metres per second. At 09:31 it came back to dock B with 74 percent and no faults.";

const CODE: &str = "\
def plan(robot, goals, limit=0.5):
    speed = min(limit, robot.max_speed)
    route = [robot.position]
    for goal in goals:
        leg = robot.path(route[-1], goal)
        if leg is None:
            robot.log('no path to', goal)
            continue
        if leg.length > robot.range(speed):
            robot.log('too far:', goal, leg.length)
            continue
        route.extend(leg.points)
        robot.reserve(leg, speed)
    if len(route) > 1:
        robot.follow(route, speed)
    return route
";

const ITEMS: &str = "\
item SN-48213-A: torque wrench, shelf 14-C, last seen 2026-10-03 by inspector Ramanathan
item SN-90177-K: hydraulic coupling, shelf 02-F, last seen 2026-11-19 by inspector Okonkwo-Baptiste
item SN-33340-Q: thermal camera mount, shelf 21-A, last seen 2026-08-27 by inspector Lindqvist
item SN-71159-D: emergency stop relay, shelf 09-B, last seen 2026-11-30 by inspector Villanueva";

const SCHEMA: &str = r#"{"type": "array", "minItems": 4, "maxItems": 4, "items": {"type": "object", "properties": {
    "serial": {"type": "string", "minLength": 10, "maxLength": 20}, "name": {"type": "string", "minLength": 13, "maxLength": 40},
    "shelf": {"type": "string", "minLength": 4, "maxLength": 12}, "seen": {"type": "string", "minLength": 10, "maxLength": 16},
    "inspector": {"type": "string", "minLength": 9, "maxLength": 32}},
    "required": ["serial", "name", "shelf", "seen", "inspector"], "additionalProperties": false}}"#;

const TOOL: &str = r#"{"type": "object", "properties": {"tool": {"const": "send_report"}, "arguments": {"type": "object",
    "properties": {"to": {"type": "string", "maxLength": 40}, "subject": {"type": "string", "maxLength": 60},
    "body": {"type": "string", "minLength": 500, "maxLength": 700}}, "required": ["to", "subject", "body"], "additionalProperties": false}},
    "required": ["tool", "arguments"], "additionalProperties": false}"#;

pub(crate) fn tasks() -> Vec<Task> {
    let task = |name, question: String| Task {
        name,
        messages: vec![Message::new(Role::User, question)],
        grammar: None,
        temperature: 0.0,
        tokens: 200,
    };
    let story = "Tell a long story about a robot that looks for its dock in a city.";
    vec![
        task(
            "quote",
            format!("{REPORT}\n\nRepeat the report above word for word, without any comment."),
        ),
        task(
            "edit",
            format!(
                "{CODE}\n\nWrite the same function again with the name `leg` changed to `part`. Write only the code."
            ),
        ),
        Task {
            grammar: Some(Grammar::JsonSchema(SCHEMA.to_owned())),
            ..task(
                "JSON of the prompt",
                format!("{ITEMS}\n\nWrite these items as JSON, with their values as they are."),
            )
        },
        Task {
            grammar: Some(Grammar::JsonSchema(TOOL.to_owned())),
            ..task(
                "a call with a text",
                format!(
                    "{REPORT}\n\nSend this report word for word to night-shift@hall-7.example with the subject \
                     'Patrol of dock B'. Call the tool send_report as JSON."
                ),
            )
        },
        task("free text", story.to_owned()),
        Task {
            temperature: 1.2,
            ..task("free text, hot", story.to_owned())
        },
    ]
}
