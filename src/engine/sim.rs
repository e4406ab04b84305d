//! A scripted engine behind the same queue: tokens, delays and faults for tests, no model.
