//! The program: all of it is in the library, where tests reach it.

fn main() -> std::process::ExitCode {
    pagewell::run(std::env::args_os())
}
