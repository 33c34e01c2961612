"""What `-o` may say, and what libfuse is told."""

import pytest

from shardfs.errors import UsageError
from shardfs.fuse.options import MountOptions, escape_option, libfuse_options, parse_options


def test_nothing_given() -> None:
    assert parse_options("") == MountOptions()


def test_own_and_generic_options() -> None:
    assert parse_options("allow_other,ro,acl,nosuid,noexec") == MountOptions(True, True, True, ("noexec", "nosuid"))


@pytest.mark.parametrize("text", ["defaults,auto,nofail,_netdev,user", "rw,async,x-systemd.automount", "default_permissions"])
def test_what_only_fstab_needs_is_skipped(text: str) -> None:
    assert parse_options(text) == MountOptions()


@pytest.mark.parametrize(("text", "expected"), [("nosuid,suid", ("suid",)), ("suid,nosuid", ("nosuid",)), ("dev,nodev,dev", ("dev",))])
def test_the_last_of_two_opposites_counts(text: str, expected: tuple[str, ...]) -> None:
    assert parse_options(text).kernel_flags == expected


def test_rw_takes_back_ro() -> None:
    assert not parse_options("ro,rw").readonly and parse_options("rw,ro").readonly


@pytest.mark.parametrize("option", ["bogus", "no", "max_read=4096", "allow_other=1"])
def test_an_unknown_option_is_refused_by_name(option: str) -> None:
    with pytest.raises(UsageError, match=f"unknown mount option '{option}'; known are acl, "):
        parse_options(f"ro,{option}")


@pytest.mark.parametrize("text", ["", "allow_other,ro,acl,nodev,noatime"])
def test_the_text_of_options_reads_back(text: str) -> None:
    assert parse_options(parse_options(text).text()) == parse_options(text)


def test_a_mount_of_roots_honours_setuid_files_and_devices() -> None:
    told = libfuse_options("/v", MountOptions(), privileged=True)
    assert told == {"default_permissions", "fsname=/v", "subtype=shardfs", "suid", "dev"}


def test_root_may_ask_for_less() -> None:
    told = libfuse_options("/v", parse_options("nosuid,nodev,ro,allow_other"), privileged=True)
    assert told >= {"nosuid", "nodev", "ro", "allow_other"} and not told & {"suid", "dev"}


def test_a_users_mount_leaves_the_safe_defaults() -> None:
    assert not libfuse_options("/v", MountOptions(), privileged=False) & {"suid", "dev"}


@pytest.mark.parametrize(("value", "escaped"), [("/a/b-c", "/a/b-c"), ("a,b\\c d", "a\\054b\\134c\\040d"), ("ü", "\\303\\274")])
def test_values_are_escaped_for_libfuse(value: str, escaped: str) -> None:
    assert escape_option(value) == escaped
