//! What a layer does as the device below it.

use pagewell_device::{Device, Error, Request};

/// Sends the first bytes of a request on, and fails the rest.
pub(crate) fn submit_part(below: &dyn Device, request: Request, bytes: usize, error: Error) {
    let rest = request.len() - bytes;
    let mut pieces = request.split(&[bytes, rest]).into_iter();
    if let Some(piece) = pieces.next() {
        below.submit(piece);
    }
    if let Some(piece) = pieces.next() {
        piece.fail(0, error);
    }
}

/// Makes methods of an `impl Device` that call those of the device below.
#[macro_export]
macro_rules! forward_device {
    ($this:ident => $below:expr; $($method:ident),+ $(,)?) => {
        $($crate::forward_device! { @$method $this ($below) })+
    };
    (@name $this:ident ($below:expr)) => {
        fn name(&$this) -> &str {
            $below.name()
        }
    };
    (@length_bytes $this:ident ($below:expr)) => {
        fn length_bytes(&$this) -> u64 {
            $below.length_bytes()
        }
    };
    (@geometry $this:ident ($below:expr)) => {
        fn geometry(&$this) -> pagewell_device::Geometry {
            $below.geometry()
        }
    };
    (@keeps_until_flush $this:ident ($below:expr)) => {
        fn keeps_until_flush(&$this) -> bool {
            $below.keeps_until_flush()
        }
    };
    (@register_memory $this:ident ($below:expr)) => {
        fn register_memory(&$this, memory: &pagewell_device::Memory) {
            $below.register_memory(memory);
        }
    };
}
