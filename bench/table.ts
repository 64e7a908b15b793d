/** A Markdown table, its columns aligned for the terminal as well. */
export function formatTable(header: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const cells = [header, ...rows].map((row) => row.map((cell) => (typeof cell === 'number' ? cell.toLocaleString('en') : cell)))
  const widths = header.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)))
  const lines = cells.map((row) => `| ${row.map((cell, column) => cell.padStart(widths[column]!)).join(' | ')} |`)
  lines.splice(1, 0, `|${widths.map((width) => `${'-'.repeat(width + 1)}:`).join('|')}|`)
  return lines.join('\n')
}
