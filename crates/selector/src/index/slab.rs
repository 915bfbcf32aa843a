//! A vector whose places are reused.

#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(value);
                place
            }
            None => {
                self.places.push(Some(value));
                (self.places.len() - 1) as u32
            }
        }
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let value = self.places.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(value)
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.places.get(place as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// How many places there are, used and free: every place number is below this.
    pub(crate) fn bound(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.places).filter_map(|(place, value)| Some((place, value.as_ref()?)))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Option<T>>() + self.free.capacity() * size_of::<u32>()
    }
}
