//! What a request asks for, by its method, its path, its query and one field: the operations of S3,
//! those of Azure and of Google Cloud Storage that are like them, and what a web server is asked.

use std::fmt;

use clap::ValueEnum;
use clap::builder::PossibleValue;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Kind {
    /// ListObjects or ListObjectsV2.
    List,
    /// HeadObject, HeadBucket, or a HEAD of a web server.
    Head,
    /// GetObject, or a GET of a web server.
    Get,
    /// PutObject, CreateBucket.
    Put,
    /// CopyObject.
    Copy,
    /// CreateMultipartUpload.
    CreateUpload,
    /// UploadPart.
    UploadPart,
    /// UploadPartCopy.
    CopyPart,
    /// CompleteMultipartUpload.
    CompleteUpload,
    /// AbortMultipartUpload.
    AbortUpload,
    /// ListMultipartUploads.
    ListUploads,
    /// ListParts.
    ListParts,
    /// DeleteObject, DeleteBucket.
    Delete,
    /// DeleteObjects.
    DeleteMany,
    /// WebDAV.
    Propfind,
    /// All others.
    Other,
}

impl Kind {
    /// Of a method and a target; `copies` where a source of a copy is given.
    pub(crate) fn of(method: &str, target: &str, copies: bool) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if let Some(kind) = Self::of_google(method, path, query) {
            return kind;
        }
        let has = |name: &str| {
            let mut names = query.split('&');
            names.any(|pair| pair.split('=').next() == Some(name))
        };
        // Of Azure, `comp` says what a request is about.
        let is_about = |what: &str| query.split('&').any(|pair| pair == what);
        match method {
            "PUT" if is_about("comp=block") && copies => return Self::CopyPart,
            "PUT" if is_about("comp=block") => return Self::UploadPart,
            "PUT" if is_about("comp=blocklist") => return Self::CompleteUpload,
            "GET" if is_about("comp=list") => return Self::List,
            _ => {}
        }
        match method {
            "HEAD" => Self::Head,
            "GET" if has("uploads") => Self::ListUploads,
            "GET" if has("uploadId") => Self::ListParts,
            "GET" if ["list-type", "prefix", "delimiter"].into_iter().any(has) => Self::List,
            "GET" => Self::Get,
            "PUT" if has("uploadId") && copies => Self::CopyPart,
            "PUT" if has("uploadId") => Self::UploadPart,
            "PUT" if copies => Self::Copy,
            "PUT" => Self::Put,
            "POST" if has("uploads") => Self::CreateUpload,
            "POST" if has("uploadId") => Self::CompleteUpload,
            "POST" if has("delete") => Self::DeleteMany,
            "DELETE" if has("uploadId") => Self::AbortUpload,
            "DELETE" => Self::Delete,
            "PROPFIND" => Self::Propfind,
            _ => Self::Other,
        }
    }

    /// Of a request of the JSON API.
    fn of_google(method: &str, path: &str, query: &str) -> Option<Self> {
        let part = ".pagewell%2Fparts%2F";
        let (api, rest) = path.trim_start_matches('/').split_once("storage/v1")?;
        Some(match (method, api) {
            ("POST", "upload/") if query.contains(part) => Self::UploadPart,
            ("POST", "upload/") => Self::Put,
            ("POST", "batch/") => Self::DeleteMany,
            ("POST", "") if rest.ends_with("/compose") => Self::CompleteUpload,
            ("GET", "") if rest.ends_with("/o") => Self::List,
            ("GET", "") if query.starts_with("alt=media") => Self::Get,
            ("GET", "") => Self::Head,
            ("DELETE", "") => Self::Delete,
            _ => return None,
        })
    }

    /// By its name: that of the type with small letters and hyphens.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("other", PossibleValue::get_name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_of_s3_are_told_apart() {
        for (method, target, copies, kind) in [
            ("GET", "/b?list-type=2&prefix=a%2F", false, Kind::List),
            ("GET", "/b/?delimiter=/&prefix=", false, Kind::List),
            ("GET", "/b/a?partNumber=1", false, Kind::Get),
            ("GET", "/b?uploads", false, Kind::ListUploads),
            ("GET", "/b/a?uploadId=1", false, Kind::ListParts),
            ("PUT", "/b/a?uploads", false, Kind::Put),
            ("PUT", "/b/a", true, Kind::Copy),
            ("PUT", "/b/a?partNumber=1&uploadId=x", true, Kind::CopyPart),
            (
                "PUT",
                "/b/a?uploadId=x&partNumber=1",
                false,
                Kind::UploadPart,
            ),
            ("POST", "/b/a?uploads=", false, Kind::CreateUpload),
            ("POST", "/b/a?uploadId=x", false, Kind::CompleteUpload),
            ("POST", "/b?delete", false, Kind::DeleteMany),
            ("DELETE", "/b/a?uploadId=x", false, Kind::AbortUpload),
            ("DELETE", "/b/a", false, Kind::Delete),
            ("PROPFIND", "/a/", false, Kind::Propfind),
            ("OPTIONS", "*", false, Kind::Other),
        ] {
            assert_eq!(Kind::of(method, target, copies), kind, "{method} {target}");
        }
    }

    #[test]
    fn those_of_azure_are_told_apart() {
        for (method, target, copies, kind) in [
            ("GET", "/a/c?comp=list&restype=container", false, Kind::List),
            (
                "PUT",
                "/a/c/k?blockid=x&comp=block",
                false,
                Kind::UploadPart,
            ),
            ("PUT", "/a/c/k?blockid=x&comp=block", true, Kind::CopyPart),
            ("PUT", "/a/c/k?comp=blocklist", false, Kind::CompleteUpload),
            ("PUT", "/a/c/k", false, Kind::Put),
            ("DELETE", "/a/c/k", false, Kind::Delete),
        ] {
            assert_eq!(Kind::of(method, target, copies), kind, "{method} {target}");
        }
    }

    #[test]
    fn those_of_google_are_told_apart() {
        let part = "/upload/storage/v1/b/b/o?name=a%2F.pagewell%2Fparts%2Fx%2F0-00001";
        for (method, target, kind) in [
            ("GET", "/storage/v1/b/b/o?fields=x&prefix=", Kind::List),
            ("GET", "/storage/v1/b/b/o/a%2Fo?fields=x", Kind::Head),
            (
                "GET",
                "/storage/v1/b/b/o/a?alt=media&ifGenerationMatch=7",
                Kind::Get,
            ),
            ("POST", "/upload/storage/v1/b/b/o?name=a", Kind::Put),
            ("POST", part, Kind::UploadPart),
            (
                "POST",
                "/storage/v1/b/b/o/a/compose?fields=x",
                Kind::CompleteUpload,
            ),
            ("POST", "/batch/storage/v1", Kind::DeleteMany),
            ("DELETE", "/storage/v1/b/b/o/a", Kind::Delete),
            ("POST", "/storage/v1/b", Kind::Other),
        ] {
            assert_eq!(Kind::of(method, target, false), kind, "{method} {target}");
        }
    }

    #[test]
    fn each_kind_has_a_name() {
        for kind in Kind::value_variants() {
            assert_eq!(Kind::named(&kind.to_string()), Some(*kind));
        }
        assert_eq!(Kind::CompleteUpload.to_string(), "complete-upload");
        assert_eq!(Kind::named("CompleteUpload"), None);
    }
}
