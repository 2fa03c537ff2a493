// Squarified treemap: rectangles with areas in proportion to sizes, as square as can be.
"use strict";

/**
 * Lay out sizes, largest first, in a rectangle {x, y, w, h}; returns one rectangle per size.
 * After Bruls, Huizing and van Wijk, "Squarified treemaps" (2000).
 */
function squares(sizes, { x, y, w, h }) {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const scale = total > 0 ? (w * h) / total : 0;
  const out = [];
  let start = 0;
  while (start < sizes.length) {
    const side = Math.min(w, h);
    let end = start;
    let area = 0;
    let worst = Infinity;
    while (end < sizes.length) {
      const next = area + sizes[end] * scale;
      const thick = next / side;
      const ratio = Math.max(ratioOf(sizes[start] * scale, thick), ratioOf(sizes[end] * scale, thick));
      if (ratio > worst) break;
      area = next;
      worst = ratio;
      end += 1;
    }
    if (end === start) { // nothing left to divide
      area = sizes[start] * scale;
      end = start + 1;
    }
    const thick = side > 0 ? area / side : 0;
    let along = 0;
    for (let k = start; k < end; k += 1) {
      const length = thick > 0 ? (sizes[k] * scale) / thick : 0;
      out.push(w >= h ? { x, y: y + along, w: thick, h: length } : { x: x + along, y, w: length, h: thick });
      along += length;
    }
    if (w >= h) { x += thick; w = Math.max(0, w - thick); } else { y += thick; h = Math.max(0, h - thick); }
    start = end;
  }
  return out;
}

function ratioOf(area, thick) {
  const length = area / thick;
  return length > 0 && thick > 0 ? Math.max(thick / length, length / thick) : Infinity;
}
