//! Object stores, web servers, the disk tier, and the staging of what has changed.

use crate::Counter;

register! { OBJECTS, Counter:
    OBJECT_GETS = "pagewell_object_get_requests_total",
        "Requests to object stores and web servers for bytes of objects.";
    OBJECT_HEADS = "pagewell_object_head_requests_total",
        "Requests to object stores and web servers for what single objects are.";
    OBJECT_LISTS = "pagewell_object_list_requests_total",
        "Requests to object stores and web servers for pages of listings.";
    OBJECT_PUTS = "pagewell_object_put_requests_total",
        "Requests to object stores that make objects, or parts of them.";
    OBJECT_DELETES = "pagewell_object_delete_requests_total",
        "Requests to object stores that remove objects.";
    OBJECT_WEB_REQUESTS = "pagewell_object_web_requests_total",
        "Requests, counted by kind, too, that went to web servers, or to those that give keys.";
    OBJECT_ANSWERS = "pagewell_object_answers_total",
        "Answers of object stores and web servers, whatever they said.";
    OBJECT_ANSWER_NANOSECONDS = "pagewell_object_answer_nanoseconds_total",
        "Time, in seconds, that these answers took to begin, summed up.";
    OBJECT_RETRIES = "pagewell_object_retries_total",
        "Requests to object stores and web servers that were made again.";
    OBJECT_THROTTLED = "pagewell_object_throttled_total",
        "Answers of object stores and web servers that ask for fewer requests (429, 503).";
    OBJECT_CONNECTIONS = "pagewell_object_connections_total",
        "Connections made to object stores and web servers.";
    OBJECT_RECEIVED_BYTES = "pagewell_object_received_bytes_total",
        "Bytes of bodies received from object stores and web servers.";
    OBJECT_SENT_BYTES = "pagewell_object_sent_bytes_total",
        "Bytes of bodies sent to object stores.";
    OBJECT_CHANGED = "pagewell_object_changed_total",
        "Times that bytes of a version were asked for of which the object has another, or none.";
    TIER_HITS = "pagewell_tier_hits_total", "Pages that the disk tier had.";
    TIER_MISSES = "pagewell_tier_misses_total", "Pages that the disk tier did not have.";
    TIER_WRITES = "pagewell_tier_writes_total", "Pages written to the disk tier.";
    TIER_EVICTIONS = "pagewell_tier_evictions_total",
        "Pages of the disk tier that were given up for others.";
    TIER_SKIPPED = "pagewell_tier_skipped_total",
        "Pages that the disk tier did not take: its disk was busy, or refused them.";
    TIER_DAMAGED = "pagewell_tier_damaged_total",
        "Pages of the disk tier that were not there as they had been written.";
    STAGING_JOURNALED = "pagewell_staging_journaled_total",
        "Times that changed bytes of an object were made durable in its staging folder.";
    STAGING_REFUSALS = "pagewell_staging_refusals_total",
        "Writes that a staging folder did not take because it was full.";
    STAGING_CONFLICTS = "pagewell_staging_conflicts_total",
        "Changed objects whose bytes are kept for people, because others had changed them too.";
    STAGING_DAMAGED = "pagewell_staging_damaged_total",
        "Journaled objects that a start did not find as they had been written, and set aside.";
}
