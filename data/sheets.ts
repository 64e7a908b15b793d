// The integers of batches. Batches share sheets: to have memory of its own would cost each of them more than to fill it.

/** Where a batch's integers are written. What follows them is 0. */
export interface Place {
  cells: Int32Array
  /** Cells before it are other batches'. */
  start: number
}

const SHEET = 1 << 14
/** That of a huge request is its own. */
const LARGEST = 1 << 20

export interface Sheets {
  /** A place for one batch. There is one at a time. */
  begin(): Place
  /** Makes sure that after the first `length` cells of the place there are `more`. */
  makeRoom(place: Place, length: number, more: number): void
  /** The first `length` cells are kept; the next batch begins after them. The cells that follow must be 0 again. */
  end(place: Place, length: number): void
}

export function openSheets(): Sheets {
  let cells: Int32Array = new Int32Array(SHEET)
  let used = 0
  return {
    begin: () => ({ cells, start: used }),
    makeRoom(place, length, more) {
      if (place.start + length + more <= place.cells.length) return
      const larger = new Int32Array(Math.max(SHEET, 2 * (length + more)))
      larger.set(place.cells.subarray(place.start, place.start + length))
      place.cells = larger
      place.start = 0
    },
    end(place, length) {
      const isHuge = place.cells.length > LARGEST
      cells = isHuge ? new Int32Array(SHEET) : place.cells
      used = isHuge ? 0 : place.start + length
    },
  }
}
