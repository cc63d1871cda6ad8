//! The HTTP endpoint of a server: `/metrics`, `/stat.json` and an index.

use std::io::Write;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_nfsd::Network;

use super::read_some;
use crate::acceptor::Acceptor;
use crate::http::host::is_own;
use crate::http::request::{Parsed, REQUEST_BYTES_MAX, parse};
use crate::metrics::{Snapshot, prometheus};

/// Connections at once. One more takes the place of the oldest one of the address that has most:
/// a request takes no time, and a client that is slow has had its turn.
const CONNECTIONS_MAX: usize = 16;

/// From accepting a connection to its last byte in each direction.
const CONNECTION_TIME: Duration = Duration::from_secs(5);

const INDEX: &str = "\
pagewell: counters of this server

/metrics    all of them, for Prometheus
/stat.json  the same as JSON
";

const MISDIRECTED: &str = "\
pagewell: ask for this server by its address, as localhost, or by the machine's own name
";

/// An endpoint, for as long as it lives. Answers that are on their way may be cut off by the end of
/// the process.
pub struct HttpServer {
    /// Where it really listens.
    pub address: SocketAddr,
    _acceptor: Acceptor,
}

impl HttpServer {
    /// Listens and answers on threads of its own. Loopback and the networks of `allow` are
    /// answered, others are closed.
    pub fn start(address: SocketAddr, allow: Vec<Network>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let open = Arc::new(Open::default());
        Ok(Self {
            address: listener.local_addr()?,
            _acceptor: Acceptor::start("http", listener.try_clone()?.into(), move || {
                let (stream, peer) = listener.accept()?;
                if allows(&allow, peer.ip()) {
                    begin(stream, peer.ip(), &open);
                }
                Ok(())
            })?,
        })
    }
}

fn allows(allow: &[Network], address: IpAddr) -> bool {
    address.to_canonical().is_loopback() || allow.iter().any(|network| network.contains(address))
}

/// The connections of a server, the oldest first.
#[derive(Default)]
struct Open(Mutex<Vec<(IpAddr, Arc<TcpStream>)>>);

impl Open {
    /// Adds one, in the place of another if there are too many.
    fn add(&self, peer: IpAddr, stream: &Arc<TcpStream>) {
        let mut open = self.0.lock();
        if open.len() >= CONNECTIONS_MAX {
            let of = |peer| open.iter().filter(|(other, _)| *other == peer).count();
            // The first of those that are equal, which is the oldest.
            let most = open.iter().map(|(peer, _)| of(*peer)).max();
            let slow = open.iter().position(|(peer, _)| Some(of(*peer)) == most);
            if let Some(slow) = slow {
                // Its thread sees the end of the stream and ends.
                let _ = open.remove(slow).1.shutdown(Shutdown::Both);
            }
        }
        open.push((peer, Arc::clone(stream)));
    }
}

/// Has a connection counted for as long as it lives.
struct Permit(Arc<Open>, Arc<TcpStream>);

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.0.0.lock();
        open.retain(|(_, stream)| !Arc::ptr_eq(stream, &self.1));
    }
}

fn begin(stream: TcpStream, peer: IpAddr, open: &Arc<Open>) {
    let stream = Arc::new(stream);
    open.add(peer.to_canonical(), &stream);
    let permit = Permit(Arc::clone(open), Arc::clone(&stream));
    // Without a thread the connection is closed: the client sees why nothing comes.
    let _ = thread::Builder::new()
        .name("http connection".to_owned())
        .spawn(move || {
            let _permit = permit;
            // The peer is gone or too slow to get an error.
            let _ = serve(&stream);
        });
}

fn serve(mut stream: &TcpStream) -> std::io::Result<()> {
    let deadline = Instant::now() + CONNECTION_TIME;
    stream.set_write_timeout(Some(CONNECTION_TIME))?;
    let mut buffer = Vec::with_capacity(1024);
    let answer = loop {
        let parsed = parse(&buffer);
        if parsed != Parsed::Partial {
            break answer(parsed);
        }
        if read_some(stream, &mut buffer, REQUEST_BYTES_MAX, deadline)? == 0 {
            return Ok(());
        }
    };
    stream.write_all(&answer)?;
    stream.shutdown(Shutdown::Write)?;
    // Closing with unread bytes would reset the connection and could lose the answer.
    for _ in 0..8 {
        buffer.clear();
        if read_some(stream, &mut buffer, REQUEST_BYTES_MAX, deadline)? == 0 {
            break;
        }
    }
    Ok(())
}

fn answer(parsed: Parsed<'_>) -> Vec<u8> {
    const TEXT: &str = "text/plain; charset=utf-8";
    match parsed {
        Parsed::Get(_, Some(host)) if !is_own(host) => {
            response("421 Misdirected Request", TEXT, MISDIRECTED)
        }
        Parsed::Get("/", _) => response("200 OK", TEXT, INDEX),
        Parsed::Get("/metrics", _) => {
            let text = prometheus::render(&Snapshot::take());
            response("200 OK", prometheus::CONTENT_TYPE, &text)
        }
        Parsed::Get("/stat.json", _) => match serde_json::to_string(&Snapshot::take()) {
            Ok(json) => response("200 OK", "application/json", &(json + "\n")),
            Err(_) => response("500 Internal Server Error", TEXT, "cannot be JSON\n"),
        },
        Parsed::Get(..) => response("404 Not Found", TEXT, "not found\n"),
        Parsed::OtherMethod => response("405 Method Not Allowed", TEXT, "GET only\n"),
        Parsed::TooLong => response("431 Request Header Fields Too Large", TEXT, "too long\n"),
        Parsed::Malformed | Parsed::Partial => {
            response("400 Bad Request", TEXT, "not an HTTP/1.1 request\n")
        }
    }
}

fn response(status: &str, content_type: &str, body: &str) -> Vec<u8> {
    let allow = if status.starts_with("405") {
        "Allow: GET\r\n"
    } else {
        ""
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         {allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn start() -> HttpServer {
        HttpServer::start("127.0.0.1:0".parse().unwrap(), Vec::new()).unwrap()
    }

    fn ask(server: &HttpServer, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn each_path_and_mistake_has_its_answer() {
        let server = start();
        for (request, status, part) in [
            ("GET / HTTP/1.1\r\n\r\n", "200", "/stat.json"),
            (
                "GET /metrics HTTP/1.1\r\n\r\n",
                "200",
                "pagewell_build_info",
            ),
            ("GET /stat.json HTTP/1.1\r\n\r\n", "200", "\"procedures\":["),
            ("GET /other HTTP/1.1\r\n\r\n", "404", "not found"),
            (
                "GET / HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
                "200",
                "/metrics",
            ),
            (
                "GET /stat.json HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                "421",
                "by its address",
            ),
            (
                "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
                "421",
                "by its address",
            ),
            ("PUT / HTTP/1.1\r\n\r\n", "405", "Allow: GET"),
            ("nonsense\r\n\r\n", "400", "not an HTTP"),
        ] {
            let text = ask(&server, request.as_bytes());
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
            assert!(text.contains(part), "{text}");
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        }
        let text = ask(&server, &[b'a'; REQUEST_BYTES_MAX]);
        assert!(text.starts_with("HTTP/1.1 431"), "{text}");
        drop(server);
    }

    /// A connection from another address of this machine.
    fn connect_from(from: [u8; 4], server: &HttpServer) -> TcpStream {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from((from, 0))).unwrap();
        connect(&socket, &server.address).unwrap();
        socket.into()
    }

    #[test]
    fn slow_clients_cannot_take_all_places() {
        let server = start();
        let slow: Vec<TcpStream> = (0..2 * CONNECTIONS_MAX)
            .map(|_| {
                let mut stream = connect_from([127, 0, 0, 2], &server);
                stream.write_all(b"GET / HT").unwrap();
                stream
            })
            .collect();
        for round in 0..2 * CONNECTIONS_MAX {
            let text = ask(&server, b"GET / HTTP/1.1\r\n\r\n");
            assert!(text.starts_with("HTTP/1.1 200"), "{round}: {text}");
        }
        drop(slow);
        drop(server);
    }

    #[test]
    fn the_oldest_of_the_address_with_most_goes_first() {
        let open = Open::default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let add = |peer: [u8; 4]| {
            let stream = Arc::new(TcpStream::connect(address).unwrap());
            let other_end = listener.accept().unwrap();
            open.add(IpAddr::from(peer), &stream);
            (stream, other_end)
        };
        let first = add([10, 0, 0, 1]);
        let many: Vec<_> = (1..CONNECTIONS_MAX).map(|_| add([10, 0, 0, 2])).collect();
        let newcomer = add([10, 0, 0, 3]);
        let is_open = |stream| {
            open.0
                .lock()
                .iter()
                .any(|(_, other)| Arc::ptr_eq(other, stream))
        };
        assert!(is_open(&first.0) && is_open(&newcomer.0));
        assert!(!is_open(&many[0].0) && is_open(&many[1].0));
        drop(Permit(Arc::new(Open::default()), newcomer.0.clone()));
        assert_eq!(open.0.lock().len(), CONNECTIONS_MAX);
    }

    #[test]
    fn stop_closes_the_listener() {
        let server = start();
        let address = server.address;
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn only_loopback_and_allowed_networks_are_answered() {
        let networks = ["10.0.0.0/8".parse().unwrap()];
        assert!(allows(&[], "127.0.0.2".parse().unwrap()));
        assert!(allows(&networks, "::ffff:127.0.0.1".parse().unwrap()));
        assert!(allows(&networks, "10.1.1.1".parse().unwrap()));
        assert!(!allows(&networks, "11.1.1.1".parse().unwrap()));
        assert!(!allows(&[], "10.1.1.1".parse().unwrap()));
    }
}
