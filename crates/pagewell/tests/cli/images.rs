//! Disk images on the command line: each kind of source, each option, each refusal.

use std::fs;

use crate::support::{Fixture, Serve, bytes, run_in};

#[test]
fn an_image_is_one_file() {
    let fixture = Fixture::new();
    let content = bytes(300_001, 5);
    fs::write(fixture.path().join("disk.img"), &content).unwrap();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    for location in [
        "disk.img",
        "image:disk.img",
        "disk.img::/disk.img",
        "image:disk.img::/disk.img",
    ] {
        assert!(run(&["cat", location]).done() == content, "{location}");
    }
    let sum = |location| {
        let line = run(&["sum", location]).text();
        line.split("  ").next().map(str::to_owned)
    };
    assert_eq!(sum("image:disk.img"), sum("disk.img"));
    assert_eq!(run(&["ls", "disk.img::/"]).text(), "disk.img\n");
    assert_eq!(run(&["ls", "image:disk.img"]).text(), "image:disk.img\n");
    run(&["cp", "image:disk.img", "tree"]).done();
    assert!(fs::read(fixture.tree().join("disk.img")).unwrap() == content);
    run(&["cp", "image:disk.img", "copy"]).done();
    assert!(fs::read(fixture.path().join("copy")).unwrap() == content);
    let zeros = run(&["cat", "image:ram:100k"]).done();
    assert!(zeros == vec![0; 100 << 10]);
}

#[test]
fn many_small_files_of_an_image_come_in_the_order_of_their_names() {
    let fixture = Fixture::new();
    let mut expected = Vec::new();
    let many = fixture.tree().join("many");
    for directory in ["a", "b"] {
        fs::create_dir_all(many.join(directory)).unwrap();
        for number in 0..150usize {
            let content = bytes(number * 97, number as u64);
            fs::write(many.join(format!("{directory}/{number:03}")), &content).unwrap();
            expected.extend(content);
        }
    }
    fixture.iso();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    assert!(run(&["cat", "-r", "tree.iso::/many"]).done() == expected);
    let small = ["cat", "-r", "--cache", "4m", "tree.iso::/many"];
    assert!(run(&small).done() == expected, "in little memory");
    let damaged = run(&[
        "cat",
        "-r",
        "tree.iso::/many",
        "tree.iso::/nothing",
        "tree.iso::/many/a",
    ]);
    assert_eq!(damaged.code, Some(1));
    let half = expected.len() / 2;
    assert!(
        damaged.out == [&expected[..], &expected[..half]].concat(),
        "all around a failure"
    );
}

#[test]
fn what_is_inside_is_recognised_by_content() {
    let fixture = Fixture::new();
    fixture.iso();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    let expected = run(&["ls", "-lR", "tree.iso"]).text();
    let big = run(&["cat", "tree.iso::/big"]).done();
    for source in ["iso:image:tree.iso", "iso:tree.iso"] {
        let listed = run(&["ls", "-lR", source]).text();
        assert_eq!(listed.replace(source, "tree.iso"), expected);
        let location = format!("{source}::/big");
        assert!(run(&["cat", &location]).done() == big, "{source}");
    }
    let whole = fs::read(fixture.path().join("tree.iso")).unwrap();
    assert!(
        run(&["cat", "image:tree.iso"]).done() == whole,
        "the image itself"
    );
}

#[test]
fn options_for_measuring_name_the_command_that_has_them() {
    let fixture = Fixture::new();
    for command in ["cat", "cp", "serve", "mount", "sum"] {
        for option in [
            "--no-readahead",
            "--no-elevator",
            "--no-merge",
            "--no-free-behind",
            "--no-page-chunk",
            "--baseline",
            "--device-model=dvd",
            "--write-rule=sync",
        ] {
            let line = run_in(fixture.path(), &[command, option, "a", "b"]).failed(2);
            let name = option.split('=').next().unwrap();
            assert!(line.contains(name), "{line}");
            assert!(line.contains("'pagewell bench "), "{line}");
        }
    }
}

#[test]
fn impossible_caches_are_usage_errors() {
    let fixture = Fixture::new();
    for command in ["cat", "sum", "ls", "stat", "serve"] {
        for (options, parts) in [
            (["--cache", "1m"], ["1 MiB", "4 MiB"]),
            (
                ["--cache", "1000000g"],
                ["1024000000 MiB", "this process may have"],
            ),
            (["--cache", "much"], ["much", "a size is a number"]),
        ] {
            let arguments = [command, options[0], options[1], "tree/a"];
            let line = run_in(fixture.path(), &arguments).failed(2);
            assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        }
    }
}

#[test]
fn what_is_no_image_is_refused_by_name() {
    let fixture = Fixture::new();
    for (source, part) in [
        ("image:nothing", "nothing: No such file"),
        ("image:tree", "tree"),
        ("image:/dev/null", "/dev/null: neither"),
    ] {
        let line = run_in(fixture.path(), &["cat", source]).failed(1);
        assert!(line.contains(part), "{line} lacks {part}");
    }
}

#[test]
fn a_server_says_what_memory_and_which_way_it_has() {
    let fixture = Fixture::new();
    let image = fixture.tree().join("big");
    let image = format!("/big=image:{}", image.display());
    let mut serve = Serve::start(&["--cache", "8m", &image]);
    let lines = serve.lines_until("image ").concat();
    assert!(lines.starts_with("cache: 8.0 MiB in "), "{lines}");
    assert!(lines.contains("big: read "), "{lines}");
    serve.signal("TERM");
    assert_eq!(serve.end().0, Some(0));
}
