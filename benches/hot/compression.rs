//! What does it cost to decide whether an answer is compressed?

use std::hint::black_box;

use criterion::Criterion;
use moorgate::config::compression;
use moorgate::traffic::Compression;
use moorgate::traffic::compression::Verdict;
use pingora_http::{RequestHeader, ResponseHeader};

fn decide(criterion: &mut Criterion) {
    let compression = Compression::compile(&compression::Compression::default());
    let mut request = RequestHeader::build("GET", b"/", None).unwrap_or_else(|error| panic!("{error}"));
    let _ = request.insert_header("Accept-Encoding", "gzip, deflate, br, zstd");
    let answer = |kind: &str| {
        let mut answer = ResponseHeader::build(200, None).unwrap_or_else(|error| panic!("{error}"));
        for (name, value) in [("Content-Type", kind), ("Content-Length", "5000"), ("Cache-Control", "max-age=60")] {
            let _ = answer.append_header(name.to_owned(), value);
        }
        answer
    };
    let (json, image) = (answer("application/json; charset=utf-8"), answer("image/png"));
    assert_ne!(compression.decide(&request, &json), Verdict::Untouched);
    assert_eq!(compression.decide(&request, &image), Verdict::Untouched);
    let mut group = criterion.benchmark_group("compression");
    group.bench_function("encoded", |bench| bench.iter(|| compression.decide(black_box(&request), black_box(&json))));
    group
        .bench_function("untouched", |bench| bench.iter(|| compression.decide(black_box(&request), black_box(&image))));
    group.finish();
}

/// All of it.
pub(crate) fn benches(criterion: &mut Criterion) {
    decide(criterion);
}
