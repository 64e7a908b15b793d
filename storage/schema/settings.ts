// Settings that tables share.

/** A retried flush finds its token here as long as fewer inserts than this came between. */
export const DEDUPLICATION_WINDOW = 10_000

export const deduplicated = `non_replicated_deduplication_window = ${DEDUPLICATION_WINDOW}`

/**
 * Fewer merges, of more parts each. For rows that come a few at a time: ClickHouse takes parts below 5 MB for equally large, and by its own
 * measure, 5, merges each few of a row with the last that has ten thousand. And for `spans`, of which there are most: writing them again for
 * ten parts less cost as much as writing them. What is older than 10 s is merged as ever.
 */
export const seldomMerged = 'merge_selector_base = 15'

/** An insert is answered when it is on disk. */
export const durable = 'fsync_after_insert = 1, fsync_part_directory = 1'
