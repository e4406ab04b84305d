//! Recurrent states on a device. `limits` refuses models that have one, so there is none.

use super::Cuda;
use crate::executor::{ExecuteError, States};

impl States for Cuda {
    fn clear_state(&mut self, _: usize) -> Result<(), ExecuteError> {
        Ok(())
    }

    fn store_state(&mut self, _: usize, _: usize, _: &[usize]) -> Result<(), ExecuteError> {
        Ok(())
    }

    fn load_state(&mut self, _: usize, _: &[usize]) -> Result<(), ExecuteError> {
        Ok(())
    }
}
