// What is worked out of few distinct things again and again, worked out once for each of them.

/** So many; then they are forgotten all at once. */
const REMEMBERED = 10_000

export function remembered<Key, Value>(workOut: (key: Key) => Value): (key: Key) => Value {
  const known = new Map<Key, Value>()
  return (key) => {
    let value = known.get(key)
    if (value === undefined) {
      if (known.size === REMEMBERED) known.clear()
      known.set(key, (value = workOut(key)))
    }
    return value
  }
}
