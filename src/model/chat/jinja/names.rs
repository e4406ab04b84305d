//! Names of the functions that rewritten templates call; no template can spell them.

pub(super) const ADD: &str = "@add";
pub(super) const SUB: &str = "@sub";
pub(super) const MUL: &str = "@mul";
pub(super) const DIV: &str = "@div";
pub(super) const INT_DIV: &str = "@int_div";
pub(super) const REM: &str = "@rem";
pub(super) const POW: &str = "@pow";
pub(super) const NEG: &str = "@neg";
pub(super) const CONCAT: &str = "@concat";
pub(super) const COMPARE: &str = "@compare";
pub(super) const ATTR: &str = "@attr";
pub(super) const ITEM: &str = "@item";
pub(super) const SLICE: &str = "@slice";
pub(super) const ITERATE: &str = "@iterate";
pub(super) const MACRO: &str = "@macro";
pub(super) const TRUTH: &str = "@truth";
pub(super) const METHOD: &str = "@method";
