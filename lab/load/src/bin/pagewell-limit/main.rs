//! `pagewell-limit`: a bare NFS server, the measure of a real one.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pagewell_load::limit::{Files, Limit, Way};

/// Serves one file to read, and files to write, over NFS version 3 with nothing behind it: what
/// it reaches is the limit of the machine and of the load. It checks no permissions; every path
/// can be mounted.
#[derive(Parser)]
#[command(name = "pagewell-limit", version)]
struct Arguments {
    /// How the data of READ leaves: mapping, copy or sendfile.
    #[arg(long, default_value_t = Way::Mapping)]
    way: Way,
    /// The file that is read; it must not change meanwhile.
    #[arg(long, value_name = "FILE")]
    read: PathBuf,
    /// A file that is written, cut short and filled with zeros as clients ask; made when missing.
    #[arg(long, value_name = "FILE")]
    write: Vec<PathBuf>,
    /// Where NFS and MOUNT listen; a loopback address.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", value_parser = loopback)]
    listen: SocketAddr,
}

/// Files are written without a permission, so only this machine may connect.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| format!("'{text}' is not ADDR:PORT"))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(format!("'{text}' is not a loopback address"))
    }
}

fn main() -> ExitCode {
    match serve(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pagewell-limit: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> io::Result<()> {
    let files = Files::open(&arguments.read, &arguments.write)?;
    let limit = Limit::bind(arguments.listen, files, arguments.way)?;
    let mut out = io::stdout();
    writeln!(out, "ready nfs://{}/", limit.address()?)?;
    out.flush()?;
    limit.serve()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
        assert!(loopback("127.0.0.1:0").is_ok() && loopback("[::1]:7").is_ok());
        assert!(loopback("0.0.0.0:0").is_err() && loopback("localhost").is_err());
    }
}
