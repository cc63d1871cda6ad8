//! Names of functions, by addr2line(1) of the binutils.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

/// A file that is mapped where a process has its instructions.
struct Mapping {
    start: u64,
    end: u64,
    /// What is added to offsets in the file's own address space.
    base: u64,
    file: PathBuf,
}

/// Where the instructions of a process come from.
pub(crate) struct Symbols(Vec<Mapping>);

impl Symbols {
    /// Of a process, from `/proc/PID/maps` (proc(5)).
    pub(crate) fn of_process(process: u32) -> anyhow::Result<Self> {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
        let mut mappings: Vec<Mapping> = Vec::new();
        let mut bases: HashMap<PathBuf, u64> = HashMap::new();
        for line in maps.lines() {
            let mut fields = line.split_ascii_whitespace();
            let (Some(range), Some(file)) = (fields.next(), fields.nth(4)) else {
                continue;
            };
            let Some((start, end)) = range.split_once('-') else {
                continue;
            };
            let (start, end) = (
                u64::from_str_radix(start, 16)?,
                u64::from_str_radix(end, 16)?,
            );
            let file = PathBuf::from(file);
            let base = *bases.entry(file.clone()).or_insert(start);
            mappings.push(Mapping {
                start,
                end,
                base,
                file,
            });
        }
        Ok(Self(mappings))
    }

    /// The functions an instruction belongs to, the innermost first; inlined ones count.
    pub(crate) fn functions(&self, instructions: &[u64]) -> anyhow::Result<Vec<Vec<String>>> {
        let mut all = Vec::with_capacity(instructions.len());
        for &instruction in instructions {
            let mapping = self
                .0
                .iter()
                .find(|mapping| (mapping.start..mapping.end).contains(&instruction));
            all.push(match mapping {
                Some(mapping) if mapping.file.is_absolute() => {
                    names(&mapping.file, instruction - mapping.base)?
                }
                _ => vec!["(unknown)".to_owned()],
            });
        }
        Ok(all)
    }
}

fn names(file: &Path, address: u64) -> anyhow::Result<Vec<String>> {
    let output = Command::new("addr2line")
        .args(["--functions", "--inlines", "--demangle", "--exe"])
        .arg(file)
        .arg(format!("{address:#x}"))
        .stderr(Stdio::null())
        .output()
        .context("addr2line (binutils) is needed for the names of functions")?;
    let text = String::from_utf8(output.stdout)?;
    let lines: Vec<&str> = text.lines().collect();
    let names = lines.chunks(2).filter_map(|lines| {
        let [function, source] = lines else {
            return None;
        };
        let line = source.rsplit_once('/').map_or(*source, |(_, line)| line);
        let line = line.split(' ').next().unwrap_or(line);
        Some(format!("{function} {line}"))
    });
    Ok(names.collect())
}
