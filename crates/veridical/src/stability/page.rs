//! The comparison as a page.
