//! Who may call: the hash of each token, and its owner.

use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

/// A token as the database has it. The token itself is nowhere.
#[derive(Debug, Clone)]
pub struct TokenRow {
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// Whose calls it makes.
    pub principal: String,
}

/// What is stored of a token.
pub fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Lets the holder of a token call as `principal`.
pub fn insert(c: &Connection, token: &str, principal: &str, now: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO tokens (hash, principal, created) VALUES (?1, ?2, ?3)";
    c.execute(sql, params![hash(token).as_slice(), principal, now])
        .map(drop)
}

/// Every token.
pub fn all(c: &Connection) -> rusqlite::Result<Vec<TokenRow>> {
    let mut statement = c.prepare("SELECT hash, principal FROM tokens")?;
    let rows = statement.query_map([], |row| {
        Ok(TokenRow {
            hash: row.get(0)?,
            principal: row.get(1)?,
        })
    })?;
    rows.collect()
}
