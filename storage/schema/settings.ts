// Settings that tables share.

/** A retried flush finds its token here as long as fewer inserts than this came between. */
export const DEDUPLICATION_WINDOW = 10_000

export const deduplicated = `non_replicated_deduplication_window = ${DEDUPLICATION_WINDOW}`

/** An insert is answered when it is on disk. */
export const durable = 'fsync_after_insert = 1, fsync_part_directory = 1'
