// What a view draws, looked through without a browser.

/** All templates in what is drawn, from the outermost. */
export function templates(drawn) {
  if (Array.isArray(drawn)) return drawn.flatMap(templates);
  return drawn?.strings ? [drawn, ...templates(drawn.values)] : [];
}

/** The text of what is drawn, with its markup. */
export function text(drawn) {
  if (Array.isArray(drawn)) return drawn.map(text).join('');
  if (drawn?.strings) return drawn.strings.map((part, index) => part + text(drawn.values[index])).join('');
  return ['string', 'number'].includes(typeof drawn) ? String(drawn) : '';
}
