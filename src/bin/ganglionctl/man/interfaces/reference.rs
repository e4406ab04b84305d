//! What neither the interfaces nor the bus hold: how a shell calls a method.

/// A method and a command line.
pub(super) const EXAMPLES: &[(&str, &str)] = &[
    (
        "Manager.Generate",
        "busctl call org.ganglion.Llm1 /org/ganglion/Llm1 org.ganglion.Llm1.Manager \\\n    Generate 'a(sa{sv})a{sv}' 1 \
         user 1 content s 'What is odometry?' 1 max_tokens u 60\nganglionctl ask 'What is odometry?'",
    ),
    (
        "Manager.Complete",
        "busctl call org.ganglion.Llm1 /org/ganglion/Llm1 org.ganglion.Llm1.Manager \\\n    Complete 'sa{sv}' 'Name a \
         colour.' 1 max_tokens u 20",
    ),
    (
        "Manager.OpenSession",
        "ganglionctl chat --system 'Be brief.'",
    ),
    ("Manager.Reload", "sudo systemctl reload gangliond"),
    (
        "Session.Send",
        "printf 'What is odometry?\\nAnd why does it drift?\\n' | ganglionctl chat",
    ),
    (
        "Session.Rewind",
        "printf 'Name a colour.\\n/undo\\nName a fruit.\\n' | ganglionctl chat",
    ),
    (
        "Session.Clear",
        "printf 'Name a colour.\\n/clear\\nName a fruit.\\n' | ganglionctl chat",
    ),
    (
        "Session.Close",
        "printf 'Name a colour.\\n' | ganglionctl chat    # closes it at the end of its input",
    ),
    (
        "Session.History",
        "printf 'Name a colour.\\n/history\\n' | ganglionctl chat",
    ),
    (
        "Request.Cancel",
        "timeout 2 ganglionctl ask 'Tell a long story.'    # leaving the bus cancels as well",
    ),
    ("Diagnostics.ResetGraph", "sudo ganglionctl graph --reset"),
    (
        "Diagnostics.DumpGraph",
        "sudo ganglionctl graph --dot graph.dot",
    ),
];
