//! The geometry of recurrent state: heads, rings, and the bytes that they take.

use crate::kv::PAGE;

/// Positions of a prompt's chunk. A chunk ends at an absolute multiple of this, or where its prompt ends.
pub const CHUNK: usize = PAGE;
/// Positions in the ring of pending updates: those that a step replays, and those that it writes.
pub const UPDATES: usize = 16;
/// Positions in the ring of a convolution's inputs, beyond the earlier inputs that one output needs: the rows of two
/// steps, and of those launched ahead.
pub const COLUMNS: usize = 24;
/// Columns of a head's state that a block of a GPU updates. Each block has a position of its own.
pub const PART: usize = 32;

/// The recurrent state that a tape reads and writes. All recurrent layers of a model have the same geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateInfo {
    /// Layers with a recurrent state.
    pub layers: usize,
    /// The heads of a layer. `None`: the convolution is all that a layer remembers (short convolutions).
    pub heads: Option<StateHeads>,
    /// Channels of a layer's convolution.
    pub channels: usize,
    /// Positions that an output of the convolution depends on, including its own.
    pub taps: usize,
    /// Columns of the hidden states that a head continues from (`Recurrent::Shift`); 0 without a head.
    pub hidden: usize,
    pub pool: StatePool,
}

/// The number of states. There may be fewer than slots of the cache: a slot needs one only while its turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatePool {
    /// Slots of the cache.
    pub slots: usize,
    /// States that slots have at the same time, at most one each.
    pub owned: usize,
    /// Further states, for prompts in progress: each writes one, which then replaces its slot's.
    pub spares: usize,
}

impl StatePool {
    /// All states, spare ones included.
    #[must_use]
    pub const fn states(&self) -> usize {
        self.owned + self.spares
    }
}

/// The heads of a layer's state. A head is a matrix of `value_dim` columns, each of `key_dim` adjacent values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHeads {
    pub rule: UpdateRule,
    /// Heads with a state of their own.
    pub heads: usize,
    /// Columns of a head.
    pub value_dim: usize,
    /// Vectors of keys in a row. Several heads share one.
    pub key_heads: usize,
    /// Values of a column.
    pub key_dim: usize,
    pub order: HeadOrder,
}

/// How a token changes a state S of (value_dim, key_dim).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateRule {
    /// `S = decay S; S += beta (v - S k) k^T` (gated delta rule: Yang et al. 2024)
    Delta,
    /// `S = decay S + v k^T` (Mamba-2: Dao and Gu 2024)
    Additive,
}

/// The key head that a head reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadOrder {
    /// Heads of one key head are adjacent: `head / (heads / key_heads)`.
    Grouped,
    /// Heads take turns: `head % key_heads`, as in GGUF files of Qwen3.5.
    Tiled,
}

impl StateHeads {
    /// The key head of a head.
    #[must_use]
    pub const fn key_head(&self, head: usize) -> usize {
        match self.order {
            HeadOrder::Grouped => head / (self.heads / self.key_heads),
            HeadOrder::Tiled => head % self.key_heads,
        }
    }

    /// Columns of a row of keys, and of a row of queries: `key_heads * key_dim`.
    #[must_use]
    pub const fn keys(&self) -> usize {
        self.key_heads * self.key_dim
    }

    /// Columns of a row of values: `heads * value_dim`.
    #[must_use]
    pub const fn values(&self) -> usize {
        self.heads * self.value_dim
    }

    /// Elements of a layer's state: `heads * value_dim * key_dim`.
    #[must_use]
    pub const fn state(&self) -> usize {
        self.values() * self.key_dim
    }

    /// Elements of one pending update: keys, values, a decay for each head, and with the delta rule a beta for each
    /// head.
    #[must_use]
    pub const fn update(&self) -> usize {
        let scalars = match self.rule {
            UpdateRule::Delta => 2,
            UpdateRule::Additive => 1,
        };
        self.keys() + self.values() + scalars * self.heads
    }

    /// Parts of all heads, each with a position of its own.
    #[must_use]
    pub const fn parts(&self) -> usize {
        self.heads * self.value_dim.div_ceil(PART)
    }
}

/// The offsets, in bytes, of what a layer holds in a state of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateLayout {
    /// f32 (head, value_dim, key_dim)
    pub state: usize,
    /// f32 (UPDATES, update), by position
    pub updates: usize,
    /// f32 (columns, channels), by position
    pub columns: usize,
    /// u32 (head, part)
    pub positions: usize,
    /// Bytes of the layer.
    pub bytes: usize,
}

impl StateInfo {
    /// Positions in the ring of the convolution's inputs.
    #[must_use]
    pub const fn columns(&self) -> usize {
        self.taps - 1 + COLUMNS
    }

    /// Bytes of a layer's state, without its rings.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        4 * self.heads.map_or(0, |heads| heads.state())
    }

    /// Bytes of one pending update of a layer.
    #[must_use]
    pub fn update_bytes(&self) -> usize {
        4 * self.heads.map_or(0, |heads| heads.update())
    }

    /// Bytes of one column of a layer's convolution.
    #[must_use]
    pub const fn column_bytes(&self) -> usize {
        4 * self.channels
    }

    /// The offsets of a layer's parts, each a multiple of 256 bytes.
    #[must_use]
    pub fn layout(&self) -> StateLayout {
        let aligned = |bytes: usize| bytes.next_multiple_of(256);
        let updates = aligned(self.state_bytes());
        let columns = updates + aligned(UPDATES * self.update_bytes());
        let positions = columns + aligned(self.columns() * self.column_bytes());
        let parts = self.heads.map_or(0, |heads| heads.parts());
        StateLayout {
            state: 0,
            updates,
            columns,
            positions,
            bytes: positions + aligned(4 * parts),
        }
    }

    /// Bytes of one hidden state.
    #[must_use]
    pub const fn hidden_bytes(&self) -> usize {
        4 * self.hidden
    }

    /// Positions in the ring of hidden states, of which a row reads the one before its own.
    #[must_use]
    pub const fn hidden_states() -> usize {
        1 + COLUMNS
    }

    /// Bytes of one state: all layers with their rings and positions, then f32 (`hidden_states`, hidden), by position.
    #[must_use]
    pub fn bytes_each(&self) -> usize {
        let hidden = Self::hidden_states() * self.hidden_bytes();
        self.layers * self.layout().bytes + hidden.next_multiple_of(256)
    }

    /// Bytes of all states, spare ones included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pool.states() * self.bytes_each()
    }

    /// Bytes of a checkpoint: the position, then the state and the last `taps - 1` columns of each layer, then the last
    /// hidden state.
    #[must_use]
    pub fn checkpoint_bytes(&self) -> usize {
        let layer = self.state_bytes() + (self.taps - 1) * self.column_bytes();
        8 + self.layers * layer + self.hidden_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Qwen3.5-4B.
    const QWEN: StateInfo = StateInfo {
        layers: 24,
        heads: Some(StateHeads {
            rule: UpdateRule::Delta,
            heads: 32,
            value_dim: 128,
            key_heads: 16,
            key_dim: 128,
            order: HeadOrder::Tiled,
        }),
        channels: 8192,
        taps: 4,
        hidden: 0,
        pool: StatePool {
            slots: 16,
            owned: 10,
            spares: 3,
        },
    };

    #[test]
    fn a_layer_of_qwen_takes_two_mebibytes() {
        assert_eq!(QWEN.state_bytes(), 2 << 20);
        assert_eq!(QWEN.checkpoint_bytes(), 8 + 24 * ((2 << 20) + 3 * 32768));
        let layout = QWEN.layout();
        assert_eq!(
            layout.columns - layout.updates,
            UPDATES * 4 * (2048 + 4096 + 64)
        );
        assert_eq!(layout.positions - layout.columns, 27 * 32768);
        assert_eq!(layout.bytes - layout.positions, 512);
    }

    #[test]
    fn a_head_adds_a_ring_of_hidden_states() {
        let with_head = StateInfo {
            hidden: 2560,
            ..QWEN
        };
        assert_eq!(with_head.bytes_each() - QWEN.bytes_each(), 25 * 10240);
        assert_eq!(
            with_head.checkpoint_bytes() - QWEN.checkpoint_bytes(),
            10240
        );
    }

    #[test]
    fn heads_read_the_key_heads_of_their_order() {
        let heads = QWEN.heads.expect("it has heads");
        let grouped = StateHeads {
            order: HeadOrder::Grouped,
            ..heads
        };
        assert_eq!(
            [0, 1, 16, 17].map(|head| heads.key_head(head)),
            [0, 1, 0, 1]
        );
        assert_eq!(
            [0, 1, 2, 31].map(|head| grouped.key_head(head)),
            [0, 0, 1, 15]
        );
    }
}
