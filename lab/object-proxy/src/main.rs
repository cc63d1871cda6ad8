//! The proxy as a program, for scripts and benchmarks of programs that are not Rust.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use pagewell_object_proxy::{Control, Proxy, Script};

/// Passes HTTP/1.1 on to a server of this machine, delays it, breaks it, and counts it.
///
/// Prints `ready ADDRESS control ADDRESS` when it listens, and runs until it is ended.
#[derive(Parser)]
#[command(name = "pagewell-object-proxy", version)]
struct Arguments {
    /// The server, an address on loopback.
    upstream: SocketAddr,
    /// Where to listen, on loopback.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The port of the control interface.
    #[arg(long, default_value_t = 0)]
    control_port: u16,
    /// What happens: lines as `latency=50ms down=100m` or `get only=3 reset=1m`.
    #[arg(long, default_value = "")]
    script: Script,
}

fn run(arguments: Arguments) -> std::io::Result<()> {
    let proxy = Proxy::start_at(arguments.listen, arguments.upstream, arguments.script)?;
    let proxy = Arc::new(proxy);
    let control = Control::start(arguments.control_port, proxy.clone())?;
    let (address, control) = (proxy.address(), control.address());
    writeln!(std::io::stdout(), "ready {address} control {control}")?;
    loop {
        std::thread::park();
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pagewell-object-proxy: {error}");
            ExitCode::FAILURE
        }
    }
}
