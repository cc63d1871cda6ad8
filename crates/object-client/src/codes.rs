//! What errors of stores mean: by the code of their XML or JSON, then by the status of the reply.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// To be tried again, more slowly; it may be done.
    Throttled,
    /// To be tried again; it may be done.
    Unclear,
    /// To be tried again; nothing was done. The body was damaged or slow on its way, or another
    /// change came between.
    Again,
    Denied,
    NotFound,
    Changed,
    Exists,
    /// The server cannot do it.
    Unsupported,
    /// The request makes no sense, or names no bucket.
    Invalid,
    Strange,
}

pub(crate) fn meaning(status: u16, code: &str) -> Meaning {
    let known = of_buckets(code).or_else(|| of_containers(status, code));
    known.unwrap_or_else(|| of_status(status))
}

/// Codes of S3 and of Google.
fn of_buckets(code: &str) -> Option<Meaning> {
    Some(match code {
        "SlowDown"
        | "SlowDownRead"
        | "SlowDownWrite"
        | "ServiceUnavailable"
        | "Throttling"
        | "ThrottlingException"
        | "RequestLimitExceeded"
        | "TooManyRequests"
        | "rateLimitExceeded"
        | "userRateLimitExceeded" => Meaning::Throttled,
        "RequestTimeout"
        | "IncompleteBody"
        | "BadDigest"
        | "XAmzContentSHA256Mismatch"
        | "ConditionalRequestConflict"
        | "OperationAborted" => Meaning::Again,
        "InternalError" => Meaning::Unclear,
        "AccessDenied"
        | "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "RequestTimeTooSkewed"
        | "NotSignedUp"
        | "ExpiredToken"
        | "InvalidToken"
        | "XAdminUserNotFound"
        | "AuthorizationHeaderMalformed"
        | "AccountProblem" => Meaning::Denied,
        "NoSuchBucket" | "PermanentRedirect" => Meaning::Invalid,
        "NotImplemented" => Meaning::Unsupported,
        "PreconditionFailed" | "conditionNotMet" => Meaning::Changed,
        _ => return None,
    })
}

/// Codes of Azure (Blob service error codes). Another client's lease comes with the status of a
/// failed condition.
fn of_containers(status: u16, code: &str) -> Option<Meaning> {
    Some(match (code, status) {
        ("ServerBusy", _) => Meaning::Throttled,
        ("OperationTimedOut", _) => Meaning::Unclear,
        ("Md5Mismatch" | "Crc64Mismatch" | "PendingCopyOperation" | "ContainerBeingDeleted", _) => {
            Meaning::Again
        }
        (
            "NoAuthenticationInformation"
            | "InvalidAuthenticationInfo"
            | "AuthenticationFailed"
            | "AuthorizationFailure"
            | "PublicAccessNotPermitted"
            | "ResourceNotFound"
            | "AccountIsDisabled"
            | "LeaseIdMissing"
            | "LeaseIdMismatchWithBlobOperation"
            | "LeaseLost"
            | "BlobImmutableDueToPolicy",
            _,
        ) => Meaning::Denied,
        // A list of blocks that are gone means an upload that is gone.
        ("BlobNotFound" | "InvalidBlockList", _) => Meaning::NotFound,
        ("BlobAlreadyExists", _) => Meaning::Exists,
        ("ConditionNotMet" | "SourceConditionNotMet" | "TargetConditionNotMet", _) => {
            Meaning::Changed
        }
        ("ContainerNotFound" | "ContainerDisabled", _) => Meaning::Invalid,
        ("APINotImplemented" | "FeatureVersionMismatch", _) => Meaning::Unsupported,
        // The source is gone, or the store itself may not read it.
        ("CannotVerifyCopySource", 404) => Meaning::NotFound,
        ("CannotVerifyCopySource", 412) => Meaning::Changed,
        ("CannotVerifyCopySource", 400..=499) => Meaning::Unsupported,
        _ => return None,
    })
}

fn of_status(status: u16) -> Meaning {
    match status {
        401 | 403 => Meaning::Denied,
        404 | 410 => Meaning::NotFound,
        405 | 501 => Meaning::Unsupported,
        412 | 416 => Meaning::Changed,
        429 | 503 => Meaning::Throttled,
        408 | 425 | 500 | 502 | 504 | 509 => Meaning::Unclear,
        400..=499 => Meaning::Invalid,
        _ => Meaning::Strange,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_goes_before_the_status() {
        for (status, code, expected) in [
            (404, "XAdminUserNotFound", Meaning::Denied),
            (404, "NoSuchKey", Meaning::NotFound),
            (404, "NoSuchBucket", Meaning::Invalid),
            (409, "ConditionalRequestConflict", Meaning::Again),
            (409, "ObjectParentIsFile", Meaning::Invalid),
            (404, "ContainerNotFound", Meaning::Invalid),
            (409, "BlobAlreadyExists", Meaning::Exists),
            (412, "LeaseIdMissing", Meaning::Denied),
            (412, "ConditionNotMet", Meaning::Changed),
            (409, "PublicAccessNotPermitted", Meaning::Denied),
            (400, "InvalidBlockList", Meaning::NotFound),
            (403, "CannotVerifyCopySource", Meaning::Unsupported),
            (412, "CannotVerifyCopySource", Meaning::Changed),
            (503, "CannotVerifyCopySource", Meaning::Throttled),
            (304, "", Meaning::Strange),
        ] {
            assert_eq!(meaning(status, code), expected, "{status} {code}");
        }
    }
}
