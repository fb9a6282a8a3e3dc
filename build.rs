//! Tells the program when it was built: scripts that parse ZooKeeper's version line expect a date in it.

use time::OffsetDateTime;
use time::macros::format_description;

fn main() {
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    println!("cargo:rerun-if-changed=Cargo.toml");
    let built = std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds.parse().ok()?).ok())
        .unwrap_or_else(OffsetDateTime::now_utc);
    let format = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    // Without a date the line keeps its shape.
    let built = built.format(&format).unwrap_or_else(|_| "1970-01-01 00:00 UTC".to_owned());
    println!("cargo:rustc-env=FERROKEEPER_BUILT={built}");
}
