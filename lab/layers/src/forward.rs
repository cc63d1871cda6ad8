//! What a layer does as the device below it.

/// Within an `impl Device`, makes methods that call those of the same name of the device below.
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
