//! Calendar dates supplied by the user: no output depends on a clock.

use veridical_core::{Error, settings};

use crate::Result;

settings! {
    /// Dates of the reference and of the tables.
    pub struct DateSettings in "Dates" {
        /// Date of the tables, YYYY-MM-DD; `refresh` names the version by it
        pub date: Option<String> = None => [value("DAY")],
        /// Date of the reference, YYYY-MM-DD; its age is then stored with the map
        pub reference_date: Option<String> = None => [detail(), value("DAY"), needs(&["date"])],
    }
}

impl DateSettings {
    /// Returns the date of the tables, validated; `None` if it was not given.
    ///
    /// # Errors
    /// [`Error::Setting`] for an invalid date.
    pub fn day(&self) -> Result<Option<String>> {
        self.date.as_deref().map(|date| days("date", date)).transpose()?;
        Ok(self.date.clone())
    }

    /// Returns both dates, validated; `None` unless both were given.
    ///
    /// # Errors
    /// As [`Dates::new`].
    pub fn get(&self) -> Result<Option<Dates>> {
        let both = self.reference_date.as_deref().zip(self.date.as_deref());
        both.map(|(reference, date)| Dates::new(reference, date)).transpose()
    }
}

/// Dates of the reference and of the table that is aligned to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dates {
    /// Date of the reference, `YYYY-MM-DD`.
    pub reference: String,
    /// Date of the table, `YYYY-MM-DD`.
    pub date: String,
}

impl Dates {
    /// Creates a validated pair of dates.
    ///
    /// # Errors
    /// [`Error::Setting`] for an invalid date, [`Error::Request`] for a table older than its reference.
    ///
    /// # Example
    /// ```
    /// use veridical::align::Dates;
    ///
    /// let dates = Dates::new("2026-02-27", "2026-03-02")?;
    /// assert_eq!(dates.age_days(), 3);
    /// assert!(Dates::new("2026-02-30", "2026-03-02").is_err());
    /// # Ok::<(), veridical::Error>(())
    /// ```
    pub fn new(reference: &str, date: &str) -> Result<Self> {
        let dates = Self { reference: reference.to_owned(), date: date.to_owned() };
        if days("date", date)? < days("reference-date", reference)? {
            return Err(Error::request(
                format!("⟨date⟩ {date} is before ⟨reference-date⟩ {reference}"),
                "the reference must be the older table",
            )
            .into());
        }
        Ok(dates)
    }

    /// Returns by how many days the reference is older than the table.
    pub fn age_days(&self) -> i64 {
        // Both were validated on construction.
        let day = |text: &str| days("", text).unwrap_or_default();
        day(&self.date) - day(&self.reference)
    }
}

/// Days since 1970-01-01 in the Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms").
fn days(name: &'static str, text: &str) -> Result<i64> {
    let refused = || {
        crate::Error::Core(Error::setting(name, "a date such as 2026-03-31", format!("`{text}`")))
    };
    let parts: Vec<&str> = text.split('-').collect();
    let [y, m, d] = parts[..] else { return Err(refused()) };
    let number = |part: &str, digits: usize| -> Result<i64> {
        let plain = part.len() == digits && part.bytes().all(|b| b.is_ascii_digit());
        part.parse().ok().filter(|_| plain).ok_or_else(refused)
    };
    let (y, m, d) = (number(y, 4)?, number(m, 2)?, number(d, 2)?);
    let leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let long = match m {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return Err(refused()),
    };
    if !(1..=long).contains(&d) {
        return Err(refused());
    }
    let y = if m <= 2 { y - 1 } else { y };
    let (era, year) = (y.div_euclid(400), y.rem_euclid(400));
    let day_of_year = (153 * (m + if m > 2 { -3 } else { 9 }) + 2) / 5 + d - 1;
    Ok(era * 146_097 + year * 365 + year / 4 - year / 100 + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts days one year and one month at a time.
    #[test]
    fn days_are_those_of_the_calendar() {
        let mut count = 0;
        for y in 1970..2110i64 {
            let leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
            for (m, long) in
                (1..).zip([31, 28 + i64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
            {
                assert_eq!(days("", &format!("{y}-{m:02}-01")).unwrap(), count);
                assert_eq!(days("", &format!("{y}-{m:02}-{long}")).unwrap(), count + long - 1);
                assert!(days("", &format!("{y}-{m:02}-{}", long + 1)).is_err());
                count += long;
            }
        }
    }

    #[test]
    fn what_is_no_day_is_refused() {
        for text in [
            "",
            "2026",
            "2026-3-1",
            "2026-13-01",
            "2026-02-29",
            "31-03-2026",
            "2026-03-0x",
            "+026-03-01",
        ] {
            let message = Dates::new("2026-01-01", text).unwrap_err().to_string();
            assert_eq!(message, format!("⟨date⟩ must be a date such as 2026-03-31, got `{text}`"));
        }
        let early = Dates::new("2026-01-02", "2026-01-01").unwrap_err().to_string();
        assert!(early.contains("is before ⟨reference-date⟩ 2026-01-02"));
        assert_eq!(Dates::new("2024-02-28", "2024-03-01").unwrap().age_days(), 2);
    }
}
