mod formats;
mod planning;
