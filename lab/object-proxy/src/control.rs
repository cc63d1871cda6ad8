//! A proxy in another process takes questions and orders by HTTP, on a port of its own:
//!
//! ```text
//!   GET  /counts     what was counted, as JSON
//!   GET  /requests   what came, a line of JSON each
//!   POST /reset      counts from zero
//!   POST /release    lets go on what is held
//!   PUT  /script     the body is the script from now on
//! ```

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use crate::Proxy;
use crate::body::{Body, Framing};
use crate::head::Head;

const SCRIPT_BYTES_MAX: u64 = 1 << 20;
/// One client at a time is served; one that says nothing does not keep the others out.
const CLIENT_WAIT: Duration = Duration::from_secs(10);

/// See the module's text. It ends with the process.
pub struct Control {
    address: SocketAddr,
}

impl Control {
    /// Starts one on this port of loopback, 0 for a free one.
    ///
    /// # Errors
    ///
    /// It cannot listen.
    pub fn start(port: u16, proxy: Arc<Proxy>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let thread = Builder::new().name("control".to_owned());
        thread.spawn(move || {
            for client in listener.incoming().flatten() {
                let _ = serve(&client, &proxy);
            }
        })?;
        Ok(Self { address })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Status and text of an answer.
fn answer(proxy: &Proxy, method: &str, target: &str, body: &str) -> (u16, String) {
    let empty = || (200, String::new());
    match (method, target) {
        ("GET", "/counts") => (200, format!("{}\n", proxy.counts().to_json())),
        ("GET", "/requests") => {
            let seen = proxy.seen();
            let lines = seen.iter().map(|seen| format!("{}\n", seen.to_json()));
            (200, lines.collect())
        }
        ("POST", "/reset") => {
            proxy.reset_counts();
            empty()
        }
        ("POST", "/release") => {
            proxy.release();
            empty()
        }
        ("PUT", "/script") => match body.parse() {
            Ok(script) => {
                proxy.set_script(script);
                empty()
            }
            Err(error) => (400, format!("{error}\n")),
        },
        _ => (404, format!("{method} {target} is not known\n")),
    }
}

fn serve(client: &TcpStream, proxy: &Proxy) -> io::Result<()> {
    client.set_read_timeout(Some(CLIENT_WAIT))?;
    client.set_write_timeout(Some(CLIENT_WAIT))?;
    let mut reader = BufReader::new(client);
    let Some(head) = Head::read(&mut reader)? else {
        return Ok(());
    };
    let (method, target) = head.request()?;
    let mut body = Vec::new();
    let framing = Framing::of_request(&head)?;
    Body::new(&mut reader, framing)
        .take(SCRIPT_BYTES_MAX)
        .read_to_end(&mut body)?;
    let (status, text) = answer(proxy, &method, &target, &String::from_utf8_lossy(&body));
    let length = text.len().to_string();
    let fields = [("Content-Length", length.as_str()), ("Connection", "close")];
    let reply = Head::new(&format!("HTTP/1.1 {status} Answer"), &fields);
    let mut client = client;
    client.write_all(&[reply.to_bytes(), text.into_bytes()].concat())
}
