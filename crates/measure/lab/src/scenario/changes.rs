// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a link changes on the way, as people write it.
use super::{LinkWords, Word, Words};
use crate::error::reason;
use alcc_link::Changes;
use alcc_units::{Span, positive};

/// What is drawn holds for an hour and then comes again.
const DRAWN: Span = Span::from_secs(3600);

impl Words {
    pub(super) fn changes(&self, words: &LinkWords, seed: u64) -> Result<Changes, String> {
        let mut changes = Changes::default();
        if let Some(word) = &words.steps {
            changes = self.table(word, seed)?;
        }
        for word in &words.step {
            changes.steps.push(word.read()?);
        }
        if let Some(word) = &words.repeat {
            changes.repeat = Some(positive(&word.text).map_err(|e| word.wrong(e))?);
        }
        if let Some(word) = &words.reorder {
            changes.reorder = match word.text.as_str() {
                "yes" => true,
                "no" => false,
                found => return Err(word.wrong(format!("'{found}': want yes or no"))),
            };
        }
        Ok(changes)
    }

    /// Steps from a file, or drawn.
    fn table(&self, word: &Word, seed: u64) -> Result<Changes, String> {
        if word.text.contains('=') {
            let drawn = Changes::random(&word.text, DRAWN, seed).map_err(|e| word.wrong(e))?;
            return Ok(Changes {
                repeat: Some(DRAWN),
                ..drawn
            });
        }
        let beside = self.folder.as_ref().map(|folder| folder.join(&word.text));
        let file = beside.filter(|file| file.is_file());
        let file = file.unwrap_or_else(|| word.text.clone().into());
        let text = std::fs::read_to_string(&file).map_err(|e| {
            word.wrong(format!(
                "read steps from {}: {}",
                file.display(),
                reason(&e)
            ))
        })?;
        Changes::from_csv(&text).map_err(|e| word.wrong(format!("{}: {e}", file.display())))
    }
}
