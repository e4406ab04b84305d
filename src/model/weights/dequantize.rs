//! TBD
macro_rules! stub { ($($n:ident)*) => { $(pub(super) fn $n(_b: &[u8], _o: &mut [f32]) { todo!() })* } }
stub!(f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q5_k q6_k);
