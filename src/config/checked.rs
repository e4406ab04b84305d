//! A checked configuration.

use serde::Serialize;

use super::sections::{
    Cpu, Device, Draft, Engine, Graph, Heat, Hold, Http, Idle, Kv, Limits, Log, Memory, Model,
    Queue, Reload, Sampling, Sessions, Stop, Stream, Vision, Watchdog,
};
use crate::load::Backend;

/// A checked configuration. Serialized, it has the shape of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Config {
    pub backend: Backend,
    pub model: Model,
    pub draft: Draft,
    pub kv: Kv,
    pub graph: Graph,
    pub memory: Memory,
    pub device: Device,
    pub cpu: Cpu,
    pub engine: Engine,
    pub queue: Queue,
    pub hold: Hold,
    pub heat: Heat,
    pub idle: Idle,
    pub reload: Reload,
    pub limits: Limits,
    pub vision: Vision,
    pub sessions: Sessions,
    pub sampling: Sampling,
    pub stream: Stream,
    pub http: Http,
    pub stop: Stop,
    pub watchdog: Watchdog,
    pub log: Log,
}
