//! A life of a database: it is opened on what survived, checked, and written to until the power
//! fails or it has had enough.

use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::model::{Change, Model, Row};
use crate::random::Random;
use crate::vfs::{DATABASE, Registered};
use crate::volume::Volume;

/// How transactions are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Journal {
    Delete,
    Truncate,
    Persist,
    Wal,
}

impl Journal {
    pub(crate) const ALL: [Self; 4] = [Self::Delete, Self::Truncate, Self::Persist, Self::Wal];

    fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Persist => "persist",
            Self::Wal => "wal",
        }
    }
}

/// Why a life ended early.
#[derive(Debug)]
pub(crate) enum End {
    /// The power failed.
    Cut,
    /// The database is not what it must be: what is wrong.
    Wrong(String),
}

/// What is known of a database that may have been interrupted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// After the last transaction that has returned from its commit.
    pub(crate) committed: Model,
    /// After the one whose commit did not return. It may be there as a whole.
    pub(crate) doubtful: Option<Model>,
    /// Transactions that were found again after a cut.
    pub(crate) found: u64,
}

/// A database that is open.
pub(crate) struct Database {
    connection: Connection,
    volume: Arc<Volume>,
    journal: Journal,
}

type Result<T> = std::result::Result<T, End>;

impl Database {
    /// Opens what is there, or begins a new one. SQLite recovers what was interrupted.
    pub(crate) fn open(
        vfs: &Registered,
        volume: Arc<Volume>,
        journal: Journal,
        random: &mut Random,
    ) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = Connection::open_with_flags_and_vfs(DATABASE, flags, vfs.name());
        let connection = ended(&volume, connection)?;
        let database = Self {
            connection,
            volume,
            journal,
        };
        database.configure(random)?;
        Ok(database)
    }

    fn configure(&self, random: &mut Random) -> Result<()> {
        // The size of a page counts when the database is made only. A small cache spills pages of
        // transactions that are not committed.
        let page_bytes = random.of(&[512, 1024, 4096]);
        let cached_pages = random.of(&[10, 100, 1000]);
        let checkpoint_pages = random.of(&[5, 50, 300]);
        let journal_bytes = random.of(&[-1, 0, 40_000]);
        let journal = self.journal.name();
        self.run(&format!(
            "PRAGMA page_size={page_bytes}; PRAGMA temp_store=memory; PRAGMA journal_mode={journal};
             PRAGMA synchronous=full; PRAGMA cache_size={cached_pages};
             PRAGMA wal_autocheckpoint={checkpoint_pages};
             PRAGMA journal_size_limit={journal_bytes};
             CREATE TABLE IF NOT EXISTS commits(number INTEGER PRIMARY KEY);
             CREATE TABLE IF NOT EXISTS items(
                 key INTEGER PRIMARY KEY, seed INTEGER, length INTEGER, bytes BLOB);
             CREATE INDEX IF NOT EXISTS seeds ON items(seed);"
        ))?;
        let mode: String = self.one("PRAGMA journal_mode")?;
        if mode == journal {
            Ok(())
        } else {
            Err(End::Wrong(format!("the journal is {mode}")))
        }
    }

    fn run(&self, statements: &str) -> Result<()> {
        ended(&self.volume, self.connection.execute_batch(statements))
    }

    fn one<T: rusqlite::types::FromSql>(&self, query: &str) -> Result<T> {
        let answer = self.connection.query_row(query, (), |row| row.get(0));
        ended(&self.volume, answer)
    }

    /// Every transaction that was committed is there, none by half.
    pub(crate) fn check(&self, known: &mut Known) -> Result<()> {
        let verdict: String = self.one(
            "SELECT group_concat(integrity_check, '; ')
             FROM pragma_integrity_check",
        )?;
        // The check takes a page that cannot be read for a broken one. The next life looks again.
        if verdict != "ok" && self.volume.is_cut() {
            return Err(End::Cut);
        }
        if verdict != "ok" {
            return Err(End::Wrong(verdict));
        }
        let commits: i64 = self.one("SELECT count(*) FROM commits")?;
        let last: i64 = self.one("SELECT coalesce(max(number), 0) FROM commits")?;
        let candidates = [known.doubtful.take(), Some(known.committed.clone())];
        let found = candidates
            .into_iter()
            .flatten()
            .find(|model| model.commits == commits && commits == last);
        let Some(found) = found else {
            let must = known.committed.commits;
            let what = format!("{commits} commits up to {last} are there, {must} must be");
            return Err(End::Wrong(what));
        };
        self.check_rows(&found)?;
        known.found += found.commits.cast_unsigned();
        known.committed = found;
        Ok(())
    }

    fn check_rows(&self, model: &Model) -> Result<()> {
        let query = "SELECT key, seed, length, bytes FROM items ORDER BY key";
        let mut statement = ended(&self.volume, self.connection.prepare(query))?;
        let rows = statement.query_map((), |row| {
            let length: i64 = row.get(2)?;
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let seed = row.get(1)?;
            let bytes: Vec<u8> = row.get(3)?;
            Ok((row.get::<_, i64>(0)?, Row { seed, length }, bytes))
        });
        let mut expected = model.rows.iter();
        for row in ended(&self.volume, rows)? {
            let (key, row, bytes) = ended(&self.volume, row)?;
            let (commits, next) = (model.commits, expected.next());
            if next != Some((&key, &row)) || bytes != row.bytes() {
                let what = format!("after commit {commits} row {key} is {row:?}, not {next:?}");
                return Err(End::Wrong(what));
            }
        }
        match expected.next() {
            None => Ok(()),
            Some((key, _)) => Err(End::Wrong(format!("row {key} is missing"))),
        }
    }

    /// Makes a transaction.
    pub(crate) fn work(&self, known: &mut Known, random: &mut Random) -> Result<()> {
        let changes = known.committed.transaction(random);
        let next = known.committed.after(&changes);
        self.run("BEGIN IMMEDIATE")?;
        for change in &changes {
            self.change(change)?;
        }
        self.run(&format!("INSERT INTO commits VALUES ({})", next.commits))?;
        if random.one_in(15) {
            return self.run("ROLLBACK");
        }
        known.doubtful = Some(next.clone());
        self.run("COMMIT")?;
        known.doubtful = None;
        known.committed = next;
        if self.journal == Journal::Wal && random.one_in(10) {
            let kind = random.of(&["passive", "full", "restart", "truncate"]);
            // It returns a row, which a batch passes over.
            self.run(&format!("PRAGMA wal_checkpoint({kind})"))?;
        }
        Ok(())
    }

    fn change(&self, change: &Change) -> Result<()> {
        let result = match *change {
            Change::Put(key, row) => {
                let statement = "INSERT INTO items VALUES (?1, ?2, ?3, ?4) ON CONFLICT(key) DO
                     UPDATE SET seed = ?2, length = ?3, bytes = ?4";
                let length = i64::try_from(row.length).unwrap_or(i64::MAX);
                let values = (key, row.seed, length, row.bytes());
                self.connection.execute(statement, values)
            }
            Change::Remove(first, last) => {
                let statement = "DELETE FROM items WHERE key BETWEEN ?1 AND ?2";
                self.connection.execute(statement, (first, last))
            }
        };
        ended(&self.volume, result).map(|_| ())
    }
}

/// Tells a power cut from a database that is broken. A message that speaks of corruption is one,
/// whatever the power did.
fn ended<T>(volume: &Volume, result: rusqlite::Result<T>) -> Result<T> {
    result.map_err(|error| {
        let corrupt = matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        );
        if volume.is_cut() && !corrupt {
            return End::Cut;
        }
        let below = volume.failure().unwrap_or_default();
        End::Wrong(format!("{error} {below}"))
    })
}
