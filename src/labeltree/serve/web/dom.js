// Elements, numbers and colors. Text from models and requests becomes text nodes, never markup.
"use strict";

const byId = (id) => document.getElementById(id);

/** Make an element; attributes that are false, null or undefined are left out. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A bar whose length is a share from 0 to 1. */
function fill(share) {
  const bar = make("span", { class: "fill" });
  bar.style.setProperty("--share", String(Math.max(0, Math.min(1, share || 0))));
  return bar;
}

const whole = new Intl.NumberFormat("en");
const count = (number, noun) => `${whole.format(number)} ${noun}${number === 1 ? "" : "s"}`;

/** Bytes with a unit, as the command line prints them. */
function size(bytes) {
  for (const [unit, factor] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (bytes >= factor) return `${(bytes / factor).toFixed(1)} ${unit}`;
  }
  return count(Math.round(bytes), "byte");
}

const digits = (number, n = 3) => Number(number).toFixed(n);
const signed = (number) => (number < 0 ? "−" : "+") + Math.abs(number).toFixed(2);

/** Call a function once no other call has come for some milliseconds. */
function debounced(call, wait) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), wait);
  };
}

/** The steps of the color scale and other colors of the style sheet, which follow the color scheme. */
function colors() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => rgb(style.getPropertyValue(name).trim());
  return { scale: [0, 1, 2, 3, 4].map((k) => of(`--s${k}`)), unknown: of("--unknown"), sheet: of("--sheet"), paper: of("--paper") };
}
const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
const css = (color) => `rgb(${color.map(Math.round).join(" ")})`;

function onScale(scale, share) {
  const at = Math.max(0, Math.min(1, share)) * (scale.length - 1);
  const low = Math.min(Math.floor(at), scale.length - 2);
  return scale[low].map((from, k) => from + (scale[low + 1][k] - from) * (at - low));
}

/** Black or white, whichever has more contrast with a color. */
function inkOn(color) {
  const [r, g, b] = color.map((part) => ((part / 255) ** 2.2));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.19 ? "#10130f" : "#ffffff";
}
