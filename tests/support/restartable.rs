//! gangliond with a tiny model on a private bus, which a test may restart.

use super::daemon::Client;
use super::gguf_writer::GgufWriter;
use super::private_bus::PrivateBus;
use super::process::Process;
use super::tiny_gguf;

pub(crate) struct Restartable {
    pub(crate) bus: PrivateBus,
    /// Tests may use the folder, too.
    pub(crate) folder: tempfile::TempDir,
    daemon: Option<Process>,
}

impl Restartable {
    pub(crate) fn new() -> Self {
        Self::with(&tiny_gguf::with_vocabulary())
    }

    pub(crate) fn with(gguf: &GgufWriter) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let model = folder.path().join("tiny.gguf");
        std::fs::write(model, gguf.file()).expect("it is written");
        Self {
            bus: PrivateBus::start(),
            folder,
            daemon: None,
        }
    }

    /// Returns the peak of the daemon's memory in bytes.
    pub(crate) fn peak(&self) -> u64 {
        let daemon = self.daemon.as_ref().expect("it was started");
        daemon.peak().expect("it runs")
    }

    /// Starts or restarts it with additional lines of configuration, of which keys without a section come first.
    pub(crate) async fn start(&mut self, more: &str) -> Client {
        drop(self.daemon.take());
        let model = self.folder.path().join("tiny.gguf");
        let config = format!(
            "backend = 'cpu'\nmodel.path = '{}'\nmodel.tool_formats = '{}/config/tools'\n{more}",
            model.display(),
            env!("CARGO_MANIFEST_DIR")
        );
        self.daemon = Some(Process::serving(&self.bus, &config).await);
        Client::connect(&self.bus).await
    }
}
