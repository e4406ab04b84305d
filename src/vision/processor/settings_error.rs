//! Why the settings of a model's processor cannot be used.

/// A value that no processor can be made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{file} has no {key}; download the model again")]
    Missing { file: &'static str, key: String },
    #[error("{file}: {key} = {value}: {allowed}")]
    BadValue {
        file: &'static str,
        key: String,
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A value of `Settings`, wherever it comes from.
    #[error(
        "the image processor's {what} is {value}; it must be {allowed}: use another conversion of the model"
    )]
    Value {
        what: &'static str,
        value: String,
        allowed: String,
    },
}
